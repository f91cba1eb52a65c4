"""What the experiments of a run show, in numbers with intervals."""

from __future__ import annotations

import math

from dflash_doctor.evidence import Evidence, RequestTrace, VerifyStep, requests_of
from dflash_doctor.metrics.acceptance import acceptance_of_steps, position_metrics
from dflash_doctor.metrics.slices import acceptance_by_context, acceptance_by_segment, by_category
from dflash_doctor.metrics.statistics import ratio_estimate
from dflash_doctor.metrics.steps import step_table
from dflash_doctor.metrics.trials import trial_effect
from dflash_doctor.records import Estimate, ExperimentRecord, ReferenceRecord, TrialRecord
from dflash_doctor.trials import ReferenceEvidence, ReferenceText, Trial

_VERDICT_ORDER = {"explains": 0, "helps a little": 1, "undecided": 2}


def experiment_metrics(evidence: Evidence) -> ExperimentRecord | None:
    """The experiments in numbers; `None` where none were made."""
    found = evidence.experiments
    if found is None:
        return None
    reference = found.reference
    tokens = {} if reference is None else {text.prompt_id: _decoded(text) for text in reference.texts}
    trials = [_trial(trial, tokens) for trial in found.trials]
    return ExperimentRecord(
        reference=None if reference is None else _reference(reference, evidence),
        trials=tuple(sorted(trials, key=_rank)),
        not_tried=found.not_tried,
        budget_s=found.budget_s,
        spent_s=found.spent_s,
        stopped=found.stopped,
    )


def _decoded(text: ReferenceText) -> int:
    """Tokens that steps yielded: all of the answer but the one of prefill."""
    return max(0, text.num_answer_tokens - 1)


def _trial(trial: Trial, tokens: dict[str, int]) -> TrialRecord:
    effect = trial_effect(trial, tokens)
    return TrialRecord(
        name=trial.name,
        kind=trial.kind,
        cause=trial.cause,
        change=trial.change,
        measure=trial.measure,
        before=effect.before,
        after=effect.after,
        effect=effect.effect,
        verdict=effect.verdict,
        confirmed=trial.confirmation is not None,
        remedy=trial.remedy,
        failed=trial.failed,
    )


def _rank(trial: TrialRecord) -> tuple[int, float]:
    """Explaining trials by the size of what they explain; the others as they came."""
    value = abs(trial.effect.value or 0.0) if trial.verdict == "explains" else 0.0
    return _VERDICT_ORDER.get(trial.verdict, 3), -value


def _reference(reference: ReferenceEvidence, evidence: Evidence) -> ReferenceRecord:
    traces = _as_traces(reference, evidence)
    table = step_table(traces, thinking=evidence.thinking)
    texts = reference.texts
    with_engine = [text for text in texts if text.engine_steps]
    compared = [text for text in texts if text.engine_compared]
    shuffled = [text for text in texts if text.steps_shuffled]
    return ReferenceRecord(
        reader=reference.reader,
        device=reference.device,
        dtype=reference.dtype,
        overall=acceptance_of_steps(table, label="overall"),
        by_category={
            name: acceptance_of_steps(step_table(members), label=name)
            for name, members in by_category(traces).items()
        },
        by_position=position_metrics(table),
        by_context=acceptance_by_context(table),
        by_segment=acceptance_by_segment(table) if evidence.thinking is not None else {},
        engine_excess_steps=_excess(
            [text.engine_steps or 0 for text in with_engine], [len(text.steps) for text in with_engine]
        ),
        equal_drafts=ratio_estimate(
            [text.engine_equal or 0 for text in compared],
            [text.engine_compared or 0 for text in compared],
            bounds=(0.0, 1.0),
        ),
        target_agreement=ratio_estimate(
            [text.target_equal for text in texts],
            [text.num_answer_tokens for text in texts],
            bounds=(0.0, 1.0),
        ),
        shuffled_excess_steps=_excess(
            [text.steps_shuffled or 0 for text in shuffled], [len(text.steps) for text in shuffled]
        ),
        profile=reference.profile,
        missing_tensors=reference.missing_tensors,
        ignored_tensors=reference.ignored_tensors,
        zero_tensors=reference.zero_tensors,
        num_non_finite_states=reference.num_non_finite_states,
    )


def _excess(steps: list[int], others: list[int]) -> Estimate:
    return ratio_estimate(steps, others, offset=-1.0, bounds=(-1.0, math.inf))


def _as_traces(reference: ReferenceEvidence, evidence: Evidence) -> tuple[RequestTrace, ...]:
    """The reference's walk as requests with steps, so that it is cut up as an engine's is."""
    own = evidence.target_only if evidence.target_only is not None else evidence.speculative
    by_id = {trace.prompt_id: trace for trace in requests_of(own)}
    found = []
    for text in reference.texts:
        trace = by_id.get(text.prompt_id)
        tokens = trace.output_ids if trace is not None else (0,) * text.num_answer_tokens
        prompt = trace.prompt_ids if trace is not None else (0,) * text.num_prompt_tokens
        steps, position = [], text.num_prompt_tokens + 1
        for accepted in text.steps:
            steps.append(
                VerifyStep(num_drafted=reference.num_draft_tokens, num_accepted=accepted, position=position)
            )
            position += accepted + 1
        found.append(
            RequestTrace(
                prompt_id=text.prompt_id,
                category=text.category,
                prompt_ids=prompt,
                output_ids=tokens[: text.num_answer_tokens],
                steps=tuple(steps),
            )
        )
    return tuple(found)
