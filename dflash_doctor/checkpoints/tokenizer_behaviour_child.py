"""The child process of `tokenizer_behaviour`: a job on stdin, reports on stdout, one per line, last one best.

A report follows each stage, so that what was learnt stays when the library takes the process down.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from dflash_doctor.checkpoints.token_text import bytes_of, readable, shortened
from dflash_doctor.checkpoints.tokenizer_behaviour import CompareJob, EncodeJob, Side
from dflash_doctor.checkpoints.tokenizer_json import FLAGS
from dflash_doctor.checkpoints.tokenizer_texts import fixed_texts, pieces
from dflash_doctor.contract.tokenizers import BehaviourComparison, TokenizationDifference

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MEMORY_LIMIT_BYTES = 4 * 1024**3
"""Address space; two tokenizers of 250,000 tokens with Python and Hypothesis take about 1 GiB of it."""
_MAX_PIECES = 12
_MAX_TOKENS_SHOWN = 64
_MAX_PANICS = 3
"""Texts on which a tokenizer may fail before it is left alone."""


Differs = Callable[[str], bool]
"""Whether the two turn a text into different ids."""


class _GaveUp(Exception):
    """A side fails too often to be compared."""


class _Pair:
    """The two tokenizers and what was tried with them."""

    def __init__(self, job: CompareJob) -> None:
        self._sides = (job.target, job.draft)
        self._tokenizers = tuple(_load(side) for side in self._sides)
        self._num_panics = 0
        self.num_texts = 0

    def differs(self, text: str, *, with_special_tokens: bool = False) -> bool:
        """Whether the ids differ; a text on which the library fails counts as alike.

        Raises:
            _GaveUp: it failed too often.
        """
        self.num_texts += 1
        ids = []
        for side, tokenizer in zip(self._sides, self._tokenizers, strict=True):
            try:
                ids.append(tokenizer.encode(text, add_special_tokens=with_special_tokens).ids)
            except BaseException as error:  # a panic is no Exception
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                self._num_panics += 1
                if self._num_panics >= _MAX_PANICS:
                    failing = f"the {side.name}'s tokenizer fails on {text[:20]!r}"
                    raise _GaveUp(f"{failing}: {_said(error)}") from None
                return False
        return bool(ids[0] != ids[1])

    def show(
        self, text: str, *, with_special_tokens: bool = False, one_sided_token: str | None = None
    ) -> TokenizationDifference:
        """The text with what each makes of it."""
        shown = []
        for side, tokenizer in zip(self._sides, self._tokenizers, strict=True):
            encoding = tokenizer.encode(text, add_special_tokens=with_special_tokens)
            added = tokenizer.get_added_tokens_decoder()
            numbers = tuple(encoding.ids[:_MAX_TOKENS_SHOWN])
            tokens = tuple(
                shortened(token) if number in added else readable(bytes_of(token, side.alphabet))
                for number, token in zip(numbers, encoding.tokens, strict=False)
            )
            shown.append((numbers, tokens))
        return TokenizationDifference(
            text=text,
            target_ids=shown[0][0],
            draft_ids=shown[1][0],
            target_tokens=shown[0][1],
            draft_tokens=shown[1][1],
            one_sided_token=one_sided_token,
            with_special_tokens=with_special_tokens,
        )


def main(scratch: str) -> None:
    """Answer the job on stdin. `scratch` takes what Hypothesis writes."""
    _limit_memory()
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=CompareJob | EncodeJob)
    if isinstance(job, EncodeJob):
        _encode(job)
        return
    try:
        pair = _Pair(job)
    except _GaveUp as reason:
        _report(BehaviourComparison(unchecked=str(reason)))
        return
    try:
        _search(pair, job, scratch)
    except _GaveUp as reason:
        _report(BehaviourComparison(num_texts=pair.num_texts, unchecked=str(reason)))


def _encode(job: EncodeJob) -> None:
    """Write the ids of the texts; nothing where the library refuses one of them."""
    try:
        tokenizer = _load(job.side)
    except _GaveUp:
        return
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in job.texts]
    sys.stdout.buffer.write(msgspec.json.encode(ids))


def _search(pair: _Pair, job: CompareJob, scratch: str) -> None:
    """Battery and generated texts; if they find nothing, one-sided tokens and what is put around a text."""
    found: list[str] = []

    def differs(text: str) -> bool:
        # Tokens of one side only explain themselves; they are tried last, so as not to hide the rest.
        return not any(token in text for token in job.one_sided_texts) and pair.differs(text)

    for text in fixed_texts(job.shared_texts, job.hints):
        if differs(text):
            _report(BehaviourComparison(num_texts=pair.num_texts, difference=pair.show(text)))
            found.append(_smallest(text, differs))
            _report(BehaviourComparison(num_texts=pair.num_texts, difference=pair.show(found[0])))
            break
    generated = _generated(job, differs, scratch)
    if generated is not None:
        found.append(_smallest(generated, differs))
    if found:
        best = min(found, key=lambda text: (len(text), text))
        _report(BehaviourComparison(num_texts=pair.num_texts, difference=pair.show(best)))
        return
    difference = None
    for token in job.one_sided_texts:
        if pair.differs(token):
            difference = pair.show(token, one_sided_token=token)
            break
    if difference is None and pair.differs("a", with_special_tokens=True):
        difference = pair.show("a", with_special_tokens=True)
    _report(BehaviourComparison(num_texts=pair.num_texts, difference=difference))


def _generated(job: CompareJob, differs: Differs, scratch: str) -> str | None:
    """A text that Hypothesis found and shrank; `None` where none of its examples differs."""
    import hypothesis
    from hypothesis import strategies
    from hypothesis.configuration import set_hypothesis_home_dir
    from hypothesis.errors import NoSuchExample

    set_hypothesis_home_dir(scratch)
    texts = strategies.lists(
        strategies.sampled_from(pieces((*job.shared_texts, *job.hints))), min_size=1, max_size=_MAX_PIECES
    ).map("".join)
    try:
        return hypothesis.find(
            texts,
            differs,
            random=random.Random(job.seed),
            settings=hypothesis.settings(
                max_examples=job.max_examples,
                database=None,
                deadline=None,
                verbosity=hypothesis.Verbosity.quiet,
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )
    except NoSuchExample:
        return None


def _smallest(text: str, differs: Differs) -> str:
    """The text without every stretch that it can lose and still differ, in simpler characters where it can.

    Hypothesis makes a text of few pieces; this goes on inside the pieces.
    """
    length = max(len(text) // 2, 1)
    while length:
        start = 0
        while start < len(text):
            shorter = text[:start] + text[start + length :]
            if shorter and differs(shorter):
                text = shorter
            else:
                start += length
        length //= 2
    for index, character in enumerate(text):
        for simpler in "a0 ":
            plainer = text[:index] + simpler + text[index + 1 :]
            if character not in "a0 " and differs(plainer):
                text = plainer
                break
    return text


def _load(side: Side) -> Tokenizer:
    """The tokenizer as transformers would have it.

    Raises:
        _GaveUp: the library refuses the file.
    """
    from tokenizers import AddedToken, Tokenizer

    try:
        tokenizer = Tokenizer.from_file(side.path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if getattr(tokenizer.model, "dropout", None):
            tokenizer.model.dropout = None  # it makes the ids of a text random
        tokenizer.add_tokens(
            [
                AddedToken(entry.content, **{flag: flag in entry.flags for flag in FLAGS})
                for entry in side.late
            ]
        )
        tokenizer.encode_special_tokens = side.splits_special_tokens
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic is no Exception
        raise _GaveUp(f"the tokenizers library refuses the {side.name}'s file: {_said(error)}") from None
    return tokenizer


def _said(error: BaseException) -> str:
    return shortened(str(error) or type(error).__name__)


def _report(report: BehaviourComparison) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT_BYTES, _MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1])
