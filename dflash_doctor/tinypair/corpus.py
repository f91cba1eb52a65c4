"""Generates the tiny pair's world: short dialogues in five categories of different predictability.

Where a person would choose freely, a *noisy look-up* chooses: a hash of what was asked picks one variant
most of the time, chance picks otherwise. So answers can be learnt but never fully, and the target's
second choice is a real one. Categories differ on purpose: `code` follows from the question nearly word
for word; in `ramble` every content word is looked up from the one before it, which a target does one word at
a time and a drafter would have to do for the whole block at once.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

ChoiceT = TypeVar("ChoiceT")

_FAITHFUL = 0.87
"""How often the look-up decides rather than chance."""

NAMES = [
    "Mia", "Leo", "Max", "Kate", "Tom", "Anna", "Ben", "Nina", "Emma", "Rosa", "Clara", "Felix",
    "Lucy", "Paul", "Ida", "Jonas",
]  # fmt: skip
THINGS = [
    "coins", "stickers", "marbles", "cards", "shells", "apples", "stamps", "pencils", "buttons",
    "books",
]  # fmt: skip
CITIES = ["Vienna", "Rome", "London", "Dublin", "Lisbon", "Prague", "Paris", "Madrid", "Oslo", "Berlin"]
CAPITALS = {
    "Austria": "Vienna", "Italy": "Rome", "England": "London", "Ireland": "Dublin", "Portugal": "Lisbon",
    "France": "Paris", "Spain": "Madrid", "Norway": "Oslo", "Germany": "Berlin",
}  # fmt: skip
HOBBIES = ["music", "chess", "hiking", "reading", "running", "cooking", "painting", "drawing"]
JOBS = ["pilot", "writer", "doctor", "baker", "teacher", "farmer", "nurse", "lawyer"]
COLOURS = ["purple", "red", "green", "yellow", "white", "black"]
PRODUCTS = ["lamp", "bottle", "chair", "table", "jacket", "clock"]
LISTS = ["scores", "values", "weights", "ages", "prices", "lengths", "items", "points"]
VARIABLES = ["n", "x", "item", "value", "entry"]
MOODS = ["calm", "lazy", "sad", "angry", "happy", "proud"]
SCENES = ["summer", "night", "winter", "sea", "city", "music"]
ADJECTIVES = [
    "rusty", "crooked", "hungry", "distant", "hollow", "bright", "quiet", "broken", "golden",
    "heavy", "sleepy", "bitter", "narrow", "gentle",
]  # fmt: skip
NOUNS = [
    "garden", "shadow", "pocket", "bridge", "engine", "thunder", "letter", "clock", "river",
    "window", "candle", "island", "kettle", "forest",
]  # fmt: skip
VERBS = [
    "follows", "answers", "crosses", "gathers", "paints", "opens", "hides", "carries", "forgets",
    "breaks",
]  # fmt: skip
TIPS = (
    "Keep notes about your progress.",
    "Do not be afraid of mistakes.",
    "Practice a little every day.",
    "Find a friend to join you.",
    "Watch how experts do it.",
    "Start with something small.",
    "Set a small goal each week.",
    "Take breaks when you feel tired.",
    "Read a good book about it.",
)
WISHES = ("Take care!", "See you soon!", "All the best!")
PRAISES = ("It is good to know you.", "Everyone likes your work.", "Have a lovely day.", "You are very kind.")
REASONS = ("it is cheaper", "the food is great", "the museums are famous", "the people are kind")
CATEGORIES = ("math", "code", "chat", "json", "ramble")


@dataclass(frozen=True)
class Dialogue:
    """Turns of user and assistant in alternation, ending with the assistant; and a thinking text for it."""

    category: str
    turns: tuple[str, ...]
    thinking: str

    @property
    def questions(self) -> tuple[str, ...]:
        """The user's turns: what makes two dialogues the same task."""
        return self.turns[::2]

    @property
    def messages(self) -> tuple[dict[str, str], ...]:
        """The turns as chat messages, without the last answer."""
        roles = ("user", "assistant")
        return tuple(
            {"role": roles[index % 2], "content": text} for index, text in enumerate(self.turns[:-1])
        )


def dialogues(category: str, count: int, *, seed: int) -> list[Dialogue]:
    """`count` dialogues of one category, the same for the same seed; some may ask the same question."""
    generator = random.Random(f"{category}/{seed}")
    make = _MAKERS[category]
    return [make(generator) for _ in range(count)]


def _look_up(generator: random.Random, key: str, choices: Sequence[ChoiceT]) -> ChoiceT:
    """The variant that belongs to the key, most of the time."""
    if generator.random() < _FAITHFUL:
        digest = hashlib.sha256(key.encode()).digest()
        return choices[int.from_bytes(digest[:4], "big") % len(choices)]
    return generator.choice(choices)


def _math(generator: random.Random) -> Dialogue:
    name, other = generator.sample(NAMES, 2)
    thing = generator.choice(THINGS)
    first, second, third = generator.randint(2, 30), generator.randint(2, 15), generator.randint(2, 9)
    kind = generator.randrange(3)
    if kind == 0:
        total = first + second
        third = min(third, total - 1)
        question = (
            f"{name} has {first} {thing}. {name} buys {second} more and gives {third} to {other}. "
            f"How many {thing} does {name} have now?"
        )
        answer = (
            f"{name} starts with {first} {thing}.\nAfter buying {second} more, {name} has "
            f"{first} + {second} = {total} {thing}.\nAfter giving {third} to {other}, {name} has "
            f"{total} - {third} = {total - third} {thing}.\n#### {total - third}"
        )
        thinking = f"Start {first}, plus {second} is {total}, minus {third} is {total - third}."
    elif kind == 1:
        question = (
            f"{name} reads {third} pages every day for {second} days. {other} reads {first} pages. "
            "How many pages did they read together?"
        )
        read = third * second
        answer = (
            f"{name} reads {third} * {second} = {read} pages.\n{other} reads {first} pages.\n"
            f"Together they read {read} + {first} = {read + first} pages.\n#### {read + first}"
        )
        thinking = f"{third} times {second} is {read}, plus {first} is {read + first}."
    else:
        question = (
            f"{name} has {third} boxes with {second} {thing} each. "
            f"{other} gives {name} {first} more {thing}. "
            f"How many {thing} does {name} have in total?"
        )
        inside = third * second
        answer = (
            f"The boxes hold {third} * {second} = {inside} {thing}.\n{other} gives {first} more.\n"
            f"In total {name} has {inside} + {first} = {inside + first} {thing}.\n#### {inside + first}"
        )
        thinking = f"{third} times {second} is {inside}, plus {first} is {inside + first}."
    return Dialogue("math", (question, answer), thinking)


def _code(generator: random.Random) -> Dialogue:
    what, variable = generator.choice(LISTS), generator.choice(VARIABLES)
    number = generator.randint(2, 40)
    task = generator.randrange(4)
    if task == 0:
        name, ask = f"add_{what}", f"adds {number} to every value in {what}"
        body = f"    for {variable} in {what}:\n        result.append({variable} + {number})\n"
    elif task == 1:
        name, ask = f"remove_{what}", f"removes the values of {what} equal to {number}"
        body = (
            f"    for {variable} in {what}:\n        if {variable} != {number}:\n"
            f"            result.append({variable})\n"
        )
    elif task == 2:
        name, ask = f"scale_{what}", f"multiplies every value in {what} by {number}"
        body = f"    for {variable} in {what}:\n        result.append({variable} * {number})\n"
    else:
        name, ask = f"reverse_{what}", f"returns {what} in reverse order"
        body = f"    for {variable} in {what}:\n        result.insert(0, {variable})\n"
    question = f"Write a python function {name} that {ask}. Use {variable} as the loop variable."
    answer = f"```python\ndef {name}({what}):\n    result = []\n{body}    return result\n```"
    return Dialogue("code", (question, answer), f"The function {name} needs a loop over {what}.")


def _chat_turn(generator: random.Random) -> tuple[str, str, str]:
    kind = generator.randrange(5)
    if kind == 0:
        country = generator.choice(sorted(CAPITALS))
        question = f"Which city is the capital of {country}?"
        style = _look_up(
            generator, country, ("The capital of {0} is {1}.", "It is {1}.", "{1} is its capital.")
        )
        answer, thought = (
            style.format(country, CAPITALS[country]),
            f"{country} has the capital {CAPITALS[country]}.",
        )
    elif kind == 1:
        left, right = generator.sample(CITIES, 2)
        question = f"Should I visit {left} or {right}?"
        choice = _look_up(generator, f"{left}{right}", (left, right))
        reason = _look_up(generator, choice, REASONS)
        ending = _look_up(generator, f"{left}-", ("", " Have a good trip!"))
        answer = f"Both {left} and {right} are nice, but I would choose {choice} because {reason}.{ending}"
        thought = f"{choice} seems better."
    elif kind == 2:
        hobby = generator.choice(HOBBIES)
        question = _look_up(
            generator,
            str(generator.random()),
            ("Give me three tips for {0}.", "How can I get better at {0}?"),
        ).format(hobby)
        first = _look_up(generator, hobby, TIPS)
        second = _look_up(generator, first, [tip for tip in TIPS if tip != first])
        third = _look_up(generator, second, [tip for tip in TIPS if tip not in (first, second)])
        ending = _look_up(generator, hobby + "!", ("Good luck!", f"Enjoy {hobby}!"))
        answer = f"Here are three tips for {hobby}:\n1. {first}\n2. {second}\n3. {third}\n{ending}"
        thought = f"Three tips for {hobby} are needed."
    elif kind == 3:
        name, job = generator.choice(NAMES), generator.choice(JOBS)
        question = f"Write a short greeting for my friend {name} who is a {job}."
        praise = _look_up(generator, name, PRAISES)
        wish = _look_up(generator, job + praise, WISHES)
        answer = f"Hi {name}, thank you for being such a good {job}. {praise} {wish}"
        thought = f"{name} is a {job}."
    else:
        colour, product = generator.choice(COLOURS), generator.choice(PRODUCTS)
        question = f"Describe a {colour} {product} in one sentence."
        middle = _look_up(generator, colour + product, ("stands out in the room", "looks simple", "is small"))
        ending = _look_up(generator, product, ("looks almost new", "costs very little", "lasts for years"))
        answer, thought = f"The {colour} {product} {middle} and {ending}.", f"A {colour} {product}."
    return question, answer, thought


def _chat(generator: random.Random) -> Dialogue:
    turns: list[str] = []
    thought = ""
    for _ in range(generator.choice((1, 1, 2))):
        question, answer, thought = _chat_turn(generator)
        turns += [question, answer]
    return Dialogue("chat", tuple(turns), thought)


def _json(generator: random.Random) -> Dialogue:
    kind = generator.randrange(3)
    if kind == 0:
        name, city, job = generator.choice(NAMES), generator.choice(CITIES), generator.choice(JOBS)
        age = generator.randint(20, 60)
        left, right = generator.sample(HOBBIES, 2)
        question = (
            f"Return JSON for a person: {name}, {age} years old, {job}, lives in {city}, "
            f"likes {left} and {right}."
        )
        answer = (
            f'{{\n  "name": "{name}",\n  "age": {age},\n  "job": "{job}",\n  "city": "{city}",\n'
            f'  "hobbies": ["{left}", "{right}"]\n}}'
        )
    elif kind == 1:
        colour, product = generator.choice(COLOURS), generator.choice(PRODUCTS)
        price, stock = generator.randint(5, 99), generator.choice(("yes", "no"))
        question = f"Return JSON for a product: {colour} {product}, price {price}, in stock: {stock}."
        answer = (
            f'{{\n  "product": "{product}",\n  "color": "{colour}",\n  "price": {price},\n'
            f'  "in_stock": {"true" if stock == "yes" else "false"}\n}}'
        )
    else:
        orders = [
            (name, generator.randint(2, 30), generator.choice(THINGS)) for name in generator.sample(NAMES, 2)
        ]
        asked = ", ".join(f"{name} ordered {count} {thing}" for name, count, thing in orders)
        question = f"Return a JSON list of orders: {asked}."
        rows = ",\n".join(
            f'  {{"customer": "{name}", "item": "{thing}", "count": {count}}}'
            for name, count, thing in orders
        )
        answer = f"[\n{rows}\n]"
    return Dialogue("json", (question, answer), "The fields are given in the request.")


def _ramble(generator: random.Random) -> Dialogue:
    scene, mood, word = generator.choice(SCENES), generator.choice(MOODS), generator.choice(ADJECTIVES)
    form = generator.choice(
        (
            "Talk freely about the {0}, {1}, first word {2}.",
            "Ramble about the {0} in a {1} mood, start with {2}.",
        )
    )
    question = form.format(scene, mood, word)
    sentences = []
    for _ in range(3):
        # Keys of two words, of which one is fixed for the whole text: tables of about a hundred entries,
        # small enough to be learnt.
        noun = _look_up(generator, f"noun {word} {mood}", NOUNS)
        verb = _look_up(generator, f"verb {noun} {scene}", VERBS)
        second = _look_up(generator, f"adjective {verb} {mood}", ADJECTIVES)
        last = _look_up(generator, f"noun {second} {scene}", NOUNS)
        opening = _look_up(generator, f"opening {word}", ("The", "A", "One"))
        sentences.append(f"{opening} {word} {noun} {verb} the {second} {last}.")
        word = _look_up(generator, f"next {last} {mood}", ADJECTIVES)
    return Dialogue("ramble", (question, " ".join(sentences)), f"The mood is {mood}.")


_MAKERS: dict[str, Callable[[random.Random], Dialogue]] = {
    "math": _math,
    "code": _code,
    "chat": _chat,
    "json": _json,
    "ramble": _ramble,
}
