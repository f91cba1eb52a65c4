"""One verdict for a run, and one sentence for people."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.records import CheckRecord, Metrics, Verdict

_MOST_BASIC_FIRST = (
    *("DF803", "DF102", "DF101", "DF401", "DF802", "DF301"),
    *("DF408", "DF405", "DF407", "DF404", "DF406", "DF402", "DF403", "DF801"),
)
"""Which finding to act on first: what voids the others comes before them.

Of unlisted codes the static families come first, for what they name needs no further experiment.
"""
_STATIC_RANK = 2.5


def run_verdict(checks: Sequence[CheckRecord], metrics: Metrics) -> tuple[Verdict, str]:
    """The verdict of a run and its summary.

    `failed` where any check failed; else `errored` where a check could not run; else `inconclusive` where
    a check could not decide or nothing was judged at all; else `passed`.
    """
    verdicts = [check.verdict for check in checks]
    if "failed" in verdicts:
        return "failed", _first_to_act_on(checks)
    if "errored" in verdicts:
        broken = next(check for check in checks if check.verdict == "errored")
        return "errored", f"{broken.code} {broken.name}: {broken.reason}"
    if "inconclusive" in verdicts:
        undecided = next(check for check in checks if check.verdict == "inconclusive")
        return "inconclusive", f"{undecided.code} {undecided.name}: {undecided.reason}"
    if "passed" not in verdicts:
        return "inconclusive", "nothing could be judged"
    return "passed", healthy_sentence(metrics)


def healthy_sentence(metrics: Metrics) -> str:
    """What a good run showed: losslessness and acceptance."""
    parts = []
    lossless = metrics.lossless
    if lossless is not None and lossless.num_compared:
        own = lossless.num_identical + lossless.num_ties
        text = f"{own} of {lossless.num_compared} outputs are the target's own"
        parts.append(text + (f" ({lossless.num_ties} part at a tie)" if lossless.num_ties else ""))
    overall = metrics.overall
    if overall is not None and overall.mean_acceptance_length.value is not None:
        length = overall.mean_acceptance_length
        text = f"acceptance length {length.value:.2f}"
        if length.low is not None and length.high is not None:
            text += f" [{length.low:.2f}, {length.high:.2f}]"
        parts.append(text)
    return "Healthy: " + "; ".join(parts) + "." if parts else "Healthy."


def _first_to_act_on(checks: Sequence[CheckRecord]) -> str:
    failed = [check for check in checks if check.verdict == "failed"]
    order = {code: rank for rank, code in enumerate(_MOST_BASIC_FIRST)}
    first = min(failed, key=lambda check: (order.get(check.code, _unlisted(check.code)), check.code))
    # A warning fails a check only where the user asked for that.
    findings = {item.severity: item for item in reversed(first.findings)}
    finding = findings.get("error") or findings.get("warning")
    if finding is None:
        return f"{first.code} {first.name}: {first.reason}"
    return f"{first.code}: {finding.message}. Do: {finding.remedy}."


def _unlisted(code: str) -> float:
    return _STATIC_RANK if code[:3] in ("DF0", "DF1", "DF2") else len(_MOST_BASIC_FIRST)
