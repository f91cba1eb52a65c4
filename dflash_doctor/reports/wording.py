"""How numbers and names are written in every report."""

from __future__ import annotations

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
    "num_overshoot_tokens": "Tokens that the last step of a request emitted past its end; engine "
    "counters include them, texts do not.",
}
"""Plain words for each metric name."""

VERDICT_WORDS = {
    "passed": "PASSED",
    "failed": "FAILED",
    "skipped": "SKIPPED",
    "inconclusive": "INCONCLUSIVE",
    "errored": "ERRORED",
}


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands separators, or `no data`."""
    return NO_DATA if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A 0..1 rate in percent, or `no data`."""
    return NO_DATA if value is None else f"{100 * value:.{digits}f} %"


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


def visible(text: str) -> str:
    """Untrusted text with everything invisible or direction-changing written out.

    Newline, tab and carriage return show as their escapes; other controls, bidirectional overrides and
    zero-width characters as `<U+202E>`. Markup is left as it is: escaping it is the writer's task.
    """
    if text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    named = {"\n": "⏎", "\t": "⇥", "\r": "␍"}.get(character)
    if named is not None:
        return named
    if unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"):
        return f"<U+{ord(character):04X}>"
    return character
