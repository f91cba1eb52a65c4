"""How numbers and names are written in every report."""

from __future__ import annotations

import math
import unicodedata

from dflash_doctor.records import Estimate

NO_DATA = "no data"

DEFINITIONS = {
    "mean_acceptance_length": "Tokens per verify step: 1 + accepted / steps, pooled over all steps, "
    "bonus token included. 1 means that speculation yields nothing.",
    "mean_acceptance_length_per_request": "Mean over requests of each request's own tokens per step: "
    "long answers do not outweigh short ones.",
    "mean_tokens_per_step": "Tokens that ended up in the text / verify steps: the acceptance length "
    "without what steps emitted past the end of the text.",
    "draft_acceptance_rate": "Accepted draft tokens / drafted tokens.",
    "accepted_per_verified": "(accepted + steps) / (drafted + steps): the useful share of the positions "
    "that the target verified.",
    "first_position_acceptance_rate": "Steps that accepted the first draft token / steps.",
    "acceptance_rate_per_position": "Steps that accepted this position / all steps; the acceptance "
    "length is 1 + the sum over positions.",
    "conditional_acceptance_rate_per_position": "Of the steps that drafted this position and accepted "
    "the one before: those that accepted it.",
    "near_miss_share": "Of the rejected draft tokens: those that were the target's second to fifth choice.",
    "tie_margin": "Log-probability gaps up to this are numerical noise on this machine, measured.",
    "num_requests": "Requests behind the number: the unit of every interval.",
    "num_drafts": "Verify steps: target forward passes that verified a draft.",
    "num_draft_tokens": "Draft tokens proposed, after those that a grammar forbids are taken out.",
    "num_accepted_draft_tokens": "Draft tokens accepted; the bonus token is not one.",
    "rejected_draft_tokens": "Draft tokens that the target verified for nothing: drafted - accepted.",
    "num_output_tokens": "Tokens of the texts, as the client got them.",
    "num_overshoot_tokens": "Tokens that the last step of a request emitted past its end; engine "
    "counters include them, texts do not.",
}
"""Plain words for each metric name."""

PLAIN_NAMES = {
    "mean_acceptance_length": "acceptance length",
    "mean_acceptance_length_per_request": "acceptance length, per request",
    "mean_tokens_per_step": "kept tokens per step",
    "draft_acceptance_rate": "drafts accepted",
    "accepted_per_verified": "useful verification",
    "first_position_acceptance_rate": "first position",
    "acceptance_rate_per_position": "of all steps",
    "conditional_acceptance_rate_per_position": "after the one before",
    "near_miss_share": "near misses",
    "tie_margin": "tie margin",
    "num_requests": "requests",
    "num_drafts": "steps",
    "num_draft_tokens": "draft tokens",
    "num_accepted_draft_tokens": "accepted draft tokens",
    "rejected_draft_tokens": "rejected draft tokens",
    "num_output_tokens": "output tokens",
    "num_overshoot_tokens": "overshoot tokens",
}
"""Short headings for the names in `DEFINITIONS`."""

SOURCE_WORDS = {
    "engine": "reported by the engine",
    "derived": "derived from steps",
    "scrape": "server-wide counters",
    "absent": NO_DATA,
}
"""Where a number came from, in words."""

VERDICT_WORDS = {
    "passed": "PASSED",
    "failed": "FAILED",
    "skipped": "SKIPPED",
    "inconclusive": "INCONCLUSIVE",
    "errored": "ERRORED",
}


_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols, as Unicode has it, that show nothing."""


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands separators, or `no data`."""
    return NO_DATA if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A 0..1 rate in percent, or `no data`."""
    return NO_DATA if value is None else f"{100 * value:.{digits}f} %"


def probability(logprob: float | None) -> str:
    """`p 3.3 %` of a natural log-probability, to two digits; `p no data`."""
    if logprob is None or math.isnan(logprob):
        return f"p {NO_DATA}"
    share = 100 * math.exp(min(logprob, 0.0))
    if share < 0.001:
        return "p < 0.001 %"
    decimals = max(0, 1 - math.floor(math.log10(share)))
    return f"p {share:.{decimals}f} %"


def interval(estimate: Estimate, digits: int = 2) -> str:
    """`4.09 [3.92, 4.26]`; without the brackets where there is no interval."""
    if estimate.value is None:
        return NO_DATA
    text = f"{estimate.value:,.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{estimate.low:,.{digits}f}, {estimate.high:,.{digits}f}]"


def percent_interval(estimate: Estimate, digits: int = 1) -> str:
    """`76.0 % [72.1, 79.9]`."""
    if estimate.value is None:
        return NO_DATA
    text = f"{100 * estimate.value:.{digits}f} %"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{100 * estimate.low:.{digits}f}, {100 * estimate.high:.{digits}f}]"


def seconds(value: float | None) -> str:
    """A duration in the unit that reads best, or `no data`."""
    if value is None:
        return NO_DATA
    if value < 1:
        return f"{1000 * value:.1f} ms"
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def plural(count: int, noun: str) -> str:
    """`1 step`, `2,166 steps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def visible(text: str) -> str:
    """Untrusted text with everything invisible or direction-changing written out.

    Newline, tab and carriage return show as `⏎`, `⇥` and `␍`; other controls, bidirectional overrides,
    zero-width characters and spaces that are not the plain one as `<U+202E>`: a drafter that proposes the
    wrong kind of space is wrong. Markup is left as it is: escaping it is the writer's task.
    """
    if text.isprintable() and _BLANK_LETTERS.isdisjoint(text):
        return text
    return "".join(_visible_character(character) for character in text)


def token_text(text: str) -> str:
    """One token's text; a token that is nothing but spaces shows a sign for each."""
    return "␣" * len(text) if text and not text.strip(" ") else visible(text)


def _visible_character(character: str) -> str:
    named = {"\n": "⏎", "\t": "⇥", "\r": "␍"}.get(character)
    if named is not None:
        return named
    is_invisible = unicodedata.category(character) in _INVISIBLE and character != " "
    if is_invisible or character in _BLANK_LETTERS:
        return f"<U+{ord(character):04X}>"
    return character
