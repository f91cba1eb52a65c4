"""From findings to ranked causes.

A check names the causes that its finding speaks for, likeliest first. How much a finding can carry depends
on what it saw: an experiment proves a cause, some observations *are* the cause (K beyond the block), others
only look like several, and of those the experiments rule out what they can. Nothing is named from a label
alone, and nothing is named on a run in which every check passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dflash_doctor.checks.base import Case
from dflash_doctor.diagnosis.catalog import causes
from dflash_doctor.records import Cause, CheckRecord, Finding

_DIRECT = {
    ("DF301", "lossy-acceptance-configured"),
    ("DF301", "verification-not-enforced"),
    ("DF301", "stop-handling-wrong"),
    ("DF401", "speculation-inactive"),
    ("DF801", "counters-inconsistent"),
    ("DF802", "degenerate-output"),
}
"""The finding observes the cause itself."""

_EXPERIMENTS = ("DF404", "DF405", "DF406", "DF407", "DF408")
"""Findings that rest on an experiment or see the defect itself; their first cause explains most."""
_STATIC_FAMILIES = ("DF0", "DF1", "DF2")
"""What files and settings say is seen, not inferred: the first cause of such a finding is direct."""

_PROVEN_CONFIDENCE = 0.95
_DIRECT_CONFIDENCE = 0.9
_SUSPECT_CONFIDENCE = 0.4
_LATER_SUSPECT_FACTOR = 0.6
"""Each further suspect of one finding is this much less likely than the one before it."""

REFERENCES = {
    "num-speculative-tokens-exceeds-block": ("vllm-project/vllm#41834", "vllm-project/speculators#456"),
    "lossy-acceptance-configured": ("sgl-project/sglang#31603",),
    "verification-not-enforced": ("ggml-org/llama.cpp#27975", "vllm-project/vllm#39273"),
    "speculation-inactive": ("warpfront/hipfire#686", "jundot/omlx#2153"),
    "counters-inconsistent": ("vllm-project/speculators#1095", "vllm-project/vllm#56101"),
    "degenerate-output": ("SharpAI/SwiftLM#88", "lightseekorg/tokenspeed#1305"),
    "draft-dtype-overflow": ("vllm-project/vllm#55250", "vllm-project/vllm#55294"),
    "block-layout-anchor": ("vllm-project/vllm#49614", "sgl-project/sglang-jax#1619"),
    "draft-max-length": ("vllm-project/vllm#58080",),
    "target-head-not-shared": ("vllm-project/vllm#46435",),
    "mask-token-wrong": ("sgl-project/SpecForge#604", "lightseekorg/TorchSpec#133"),
    "rotary-partial-factor": ("vllm-project/speculators#613", "deepseek-ai/DeepSpec#71"),
    "rotary-layout": ("vllm-project/vllm#53063", "vllm-project/vllm#54373"),
    "rotary-theta": ("sgl-project/SpecForge#265", "NVIDIA-NeMo/Automodel#2920"),
    "draft-weights-not-loaded": ("sgl-project/sglang#35797", "vllm-project/vllm#37667"),
    "wrong-drafter-for-target": ("vllm-project/vllm#48113",),
    "target-layer-ids-shifted": ("vllm-project/vllm#40727", "microsoft/onnxruntime-genai#2538"),
    "target-layer-ids-missing": ("sgl-project/sglang#37475", "vllm-project/vllm#50170"),
    "target-layer-ids-out-of-range": ("vllm-project/vllm#48113", "sgl-project/sglang#32204"),
    "target-features-rotated": ("vllm-project/vllm-ascend#11978",),
    "draft-head-overwritten": ("vllm-project/vllm-ascend#11374", "vllm-project/vllm-ascend#9795"),
    "draft-vocab-map-broken": ("NVIDIA-NeMo/Automodel#2447", "sgl-project/SpecForge#534"),
    "embedding-scale-missing": ("vllm-project/vllm#41703",),
    "draft-head-quantized-unsupported": ("sgl-project/sglang#35534", "vllm-project/vllm#52816"),
    "tokenizer-conflict": ("vllm-project/vllm#10913", "SafeAILab/EAGLE#258"),
    "sliding-window-ignored": ("ikawrakow/ik_llama.cpp#2021", "z-lab/dflash#126"),
    "causal-flag": ("vllm-project/vllm#56692", "NVIDIA/Model-Optimizer#2149"),
    "attention-backend-incompatible": ("vllm-project/vllm#48167", "sgl-project/sglang#35209"),
    "dflash2-as-dflash1": ("vllm-project/vllm#53612", "raullenchai/Rapid-MLX#2195"),
    "draft-quantization-inherited": ("vllm-project/vllm#49133", "vllm-project/vllm#53116"),
    "draft-context-polluted": ("vllm-project/vllm#57356", "vllm-project/vllm#41703"),
    "draft-context-holes": ("vllm-project/vllm#47930", "vllm-project/vllm#47926"),
    "tensor-parallel-inconsistent": ("vllm-project/vllm#42803", "vllm-project/vllm#44697"),
    "recurrent-state-not-rolled-back": ("vllm-project/vllm#39273", "ml-explore/mlx-lm#1109"),
    "sampling-biased": ("vllm-project/vllm#54282",),
    "sampling-acceptance-low": ("syv-ai/qwen38-27b-rtx3090#73", "z-lab/dflash#169"),
    "backend-capability-missing": ("vllm-project/vllm-ascend#8819", "NVIDIA/Model-Optimizer#2201"),
    "backend-version-unpinned": ("eugr/spark-vllm-docker#364",),
    "chat-template-mismatch": ("ROCm/ATOM#609", "lightseekorg/tokenspeed#1305"),
    "target-changed": ("z-lab/dflash#149",),
    "thinking-mode-mismatch": ("z-lab/dflash#133", "z-lab/dflash#60"),
}
"""Public threads in which the cause was found, as owner/repository#number."""


def diagnose(checks: Sequence[CheckRecord], case: Case) -> tuple[Cause, ...]:
    """Causes that failed checks speak for, best first; empty when none failed.

    Args:
        checks: what every check said.
        case: what they looked at; what it holds against a cause is listed with it.
    """
    found: dict[str, list[tuple[float, Finding]]] = defaultdict(list)
    for check in checks:
        if check.verdict != "failed":
            continue
        for finding in check.findings:
            if finding.severity != "error":
                continue
            for rank, name in enumerate(finding.causes):
                found[name].append((_confidence(finding.code, name, rank), finding))
    refuted = _ruled_out(case)
    ranked = [
        _cause(name, reasons, case)
        for name, reasons in found.items()
        if name not in refuted or max(weight for weight, _ in reasons) >= _DIRECT_CONFIDENCE
    ]
    if not ranked and found:
        ranked = _unexplained(case, next(iter(found.values())))
    explained = {
        name: max(finding.numbers.get("explained", 0.0) for _, finding in reasons)
        for name, reasons in found.items()
    }
    # Of causes that are equally sure the one that explains more of the loss comes first.
    ranked.sort(key=lambda cause: (-cause.confidence, -explained.get(cause.cause, 0.0)))
    return tuple(ranked)


def _ruled_out(case: Case) -> frozenset[str]:
    """Causes of which every experiment left things as they were or made them worse."""
    experiments = case.metrics.experiments
    trials = experiments.trials if experiments is not None else ()
    judged = [trial for trial in trials if trial.verdict != "failed"]
    alive = {trial.cause for trial in judged if trial.verdict not in ("no effect", "worse")}
    return frozenset(trial.cause for trial in judged if trial.kind == "intervention") - alive


_UNEXPLAINED = ("undertrained-drafter", "target-changed", "distribution-shift")


def _unexplained(case: Case, reasons: list[tuple[float, Finding]]) -> list[Cause]:
    """What remains where every suspect was tried and none fits: causes that no setting can undo."""
    experiments = case.metrics.experiments
    assert experiments is not None, "something was ruled out"
    count = sum(trial.verdict != "failed" for trial in experiments.trials)
    told = f"no known cause fits: {count} experiments changed nothing for the better"
    finding = reasons[0][1]
    return [
        Cause(
            cause=name,
            confidence=round(_SUSPECT_CONFIDENCE * _LATER_SUSPECT_FACTOR**rank, 2),
            kind=causes()[name].kind,
            summary=causes()[name].summary + " (what remains, not proven)",
            evidence=(f"{finding.code}: {finding.observed}", told),
            remedy="try the drafter's own benchmark prompts, then the target that it was trained for",
            codes=(finding.code,),
            references=REFERENCES.get(name, ()),
        )
        for rank, name in enumerate(_UNEXPLAINED)
    ]


def _confidence(code: str, name: str, rank: int) -> float:
    if code in _EXPERIMENTS:
        return float(_PROVEN_CONFIDENCE * _LATER_SUSPECT_FACTOR**rank)
    seen_in_files = code.startswith(_STATIC_FAMILIES) and rank == 0
    base = _DIRECT_CONFIDENCE if seen_in_files or (code, name) in _DIRECT else _SUSPECT_CONFIDENCE
    return float(base * _LATER_SUSPECT_FACTOR**rank)


def _cause(name: str, reasons: list[tuple[float, Finding]], case: Case) -> Cause:
    entry = causes()[name]
    confidence, strongest = max(reasons, key=lambda item: item[0])
    suspected = confidence < _DIRECT_CONFIDENCE * _LATER_SUSPECT_FACTOR
    return Cause(
        cause=name,
        confidence=round(confidence, 2),
        kind=entry.kind,
        summary=entry.summary + (" (suspected from the pattern, not proven)" if suspected else ""),
        evidence=tuple(dict.fromkeys(f"{item.code}: {item.observed}" for _, item in reasons)),
        against=_against(name, case),
        remedy=strongest.remedy,
        codes=tuple(dict.fromkeys(item.code for _, item in reasons)),
        references=REFERENCES.get(name, ()),
    )


def _against(name: str, case: Case) -> tuple[str, ...]:
    """Observations that speak against a cause."""
    facts, metrics = case.evidence.facts, case.metrics
    against = []
    if facts is not None:
        if name == "target-head-not-shared" and facts.lm_head_shared:
            against.append("the live drafter shares the target's head")
        if name == "draft-dtype-overflow" and facts.dtype in ("bfloat16", "float32"):
            against.append(f"the engine runs in {facts.dtype}, whose range is that of float32")
    segments = metrics.by_segment
    if name == "thinking-mode-mismatch" and segments and "thinking" not in segments:
        against.append("no draft was made inside a thinking block")
    return tuple(against)
