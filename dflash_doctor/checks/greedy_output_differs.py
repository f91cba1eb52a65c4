"""Greedy output is not the target's own

## What it checks

At temperature 0 speculation must not change the text. Token ids of both arms are compared request by
request. Where they part, the target reads the common prefix and scores both continuations: a gap within
the numeric noise of this machine (measured: the target-only arm against itself in other batches, and one
rounding step of the model's dtype) is a *tie*, a larger one is a *fault*.

## Why it matters

A tie is no defect: verification runs other kernel shapes than decoding, and two tokens that the target
finds equally good may swap. A fault means that tokens were kept which the target would not have chosen:
verification is not enforced, state was not rolled back, a mode is lossy, or the two arms do not run the
same model. Comparing text alone cannot tell the two apart, so such tests are loosened until they catch
nothing.

## Example

    DF301 the output is not the target's own
      seen:     3 of 200 outputs part where the target clearly prefers its own token; math-007 at output
                token 12: target ' 64' (ln p -0.02), speculative ' 46' (ln p -9.81), gap 9.79, an accepted
                draft token
      expected: gaps within 0.125 nats, the numeric noise of this machine
      do:       turn lossy acceptance off; rerun with --engine-arg enforce_eager=true, then with prefix
                caching off; report the smallest setting that differs to the engine

## What to do

Look at where the first differing token came from. An *accepted* draft token: verification accepted what
the target would not say. A *recovered* or *bonus* token: the target's own choice was computed from other
state. The *prefill* token: speculation had not begun, so the two arms differ in more than speculation.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, failed, inconclusive, passed, skipped
from dflash_doctor.evidence import Divergence, requests_of
from dflash_doctor.metrics.divergence import kind_of
from dflash_doctor.records import Finding, LosslessMetrics, Where

_MAX_FAULTS_SHOWN = 5
_REMEDY = (
    "turn lossy acceptance off if it is on; rerun with --engine-arg enforce_eager=true, then with "
    "--engine-arg enable_prefix_caching=false, to see which one restores the text"
)


def judge(case: Case) -> Outcome:
    """Triage every divergence."""
    evidence, lossless = case.evidence, case.metrics.lossless
    if case.temperature > 0:
        return skipped("at temperature above 0 two texts differ by chance")
    if lossless is None or evidence.divergences is None:
        return skipped("the target-only arm was not run, so there is nothing to compare with")
    if lossless.num_compared == 0:
        return skipped("no request was decoded by both arms")
    margin = lossless.tie_margin
    kinds = [(kind_of(item, tie_margin=margin), item) for item in evidence.divergences]
    faults = sorted((item for kind, item in kinds if kind == "fault"), key=lambda item: -abs(item.gap or 0.0))
    if faults:
        findings = [_fault(case, item, lossless) for item in faults[:_MAX_FAULTS_SHOWN]]
        return failed(f"{len(faults)} of {lossless.num_compared} outputs are not the target's own", findings)
    notes = _notes(case, [item for kind, item in kinds if kind == "tie"], lossless)
    if lossless.num_untriaged:
        return inconclusive(
            f"{lossless.num_untriaged} of {lossless.num_compared} outputs differ, and the target's scores "
            "there are not known; an engine that can score decides",
            notes,
        )
    if lossless.num_ties:
        return passed(
            f"{lossless.num_identical} of {lossless.num_compared} outputs are the target's own, "
            f"{lossless.num_ties} part at a numerical tie",
            notes,
        )
    return passed(
        f"all {lossless.num_compared} outputs are the target's own, token for token",
        notes,
    )


def _fault(case: Case, item: Divergence, lossless: LosslessMetrics) -> Finding:
    texts = case.evidence.token_texts
    gap = item.gap
    assert gap is not None, "a fault has a gap"
    if gap >= 0:
        message = "the output is not the target's own"
    else:
        message = "the target-only text is not what the target itself prefers"
    margin = lossless.tie_margin or 0.0
    origin = {"prefill": "the token of prefill", "unknown": "of unknown origin"}.get(
        item.source, f"{'an' if item.source == 'accepted' else 'a'} {item.source} token"
    )
    return Finding(
        code="DF301",
        severity="error",
        message=message,
        observed=(
            f"{item.prompt_id} at output token {item.index}: target {_shown(texts, item.target_id)} "
            f"(ln p {item.target_logprob:.2f}), speculative {_shown(texts, item.speculative_id)} "
            f"(ln p {item.speculative_logprob:.2f}), gap {gap:.2f}; the speculative one was {origin}"
        ),
        expected=f"a gap within {margin:.3g} nats, the numeric noise of this machine",
        remedy=_REMEDY,
        where=Where(prompt_id=item.prompt_id, category=item.category),
        causes=_causes(case, item),
        numbers={"gap": gap, "index": item.index, "tie_margin": margin},
    )


def _causes(case: Case, item: Divergence) -> tuple[str, ...]:
    """What a fault speaks for: a lossy setting that is on, an end that was passed over, else the verifier."""
    facts, own = case.evidence.facts, case.evidence.target_only
    if facts is not None and facts.lossy_settings:
        return ("lossy-acceptance-configured", "verification-not-enforced")
    ended = {
        trace.prompt_id: len(trace.output_ids) for trace in requests_of(own) if trace.finish_reason == "stop"
    }
    if ended.get(item.prompt_id) in (item.index, item.index + 1) and item.speculative_id is not None:
        return ("stop-handling-wrong", "verification-not-enforced")
    return ("verification-not-enforced",)


def _notes(case: Case, ties: list[Divergence], lossless: LosslessMetrics) -> list[Finding]:
    notes = []
    if ties:
        widest = max(abs(item.gap or 0.0) for item in ties)
        notes.append(
            Finding(
                code="DF301",
                severity="info",
                message="some outputs part at a numerical tie, which is no fault",
                observed=f"{len(ties)} of {lossless.num_compared}; widest gap {widest:.3g} nats",
                expected=f"gaps within {lossless.tie_margin or 0.0:.3g} nats",
                remedy="nothing; for identical text run with --engine-arg dtype=float32",
                causes=("numeric-tie",),
                numbers={"num_ties": len(ties), "widest_gap": widest},
            )
        )
    noise = case.evidence.noise
    if noise is not None and noise.num_text_differences:
        notes.append(
            Finding(
                code="DF301",
                severity="info",
                message="the target alone does not repeat its own text when only the batching changes",
                observed=f"{noise.num_text_differences} of {noise.num_requests} texts ({noise.how})",
                expected="the same text",
                remedy="nothing for speculation; choose a batch-invariant mode if exact repeats matter",
                causes=("numeric-tie",),
                numbers={"num_text_differences": noise.num_text_differences},
            )
        )
    return notes


def _shown(texts: dict[int, str], token: int | None) -> str:
    return "end of text" if token is None else repr(texts.get(token, f"<{token}>"))
