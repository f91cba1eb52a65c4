"""Applies a line of the semantics table to a drafter: what would that reader do with these files?"""

from __future__ import annotations

from dflash_doctor.checkpoints.semantics.base import CausalRule, Semantics
from dflash_doctor.checkpoints.semantics.table import SEMANTICS, semantics_of
from dflash_doctor.contract.pair import GUESSED, DraftConfig, Reading, TargetConfig

_SLIDING = "sliding_attention"
TARGET_DEFAULTS = "the target class's own EAGLE-3 defaults"


def readings(draft: DraftConfig, target: TargetConfig | None) -> tuple[Reading, tuple[Reading, ...]]:
    """How the drafter was trained, and how each engine would read it."""
    trained = read_as(semantics_of(draft.native), draft, target)
    return trained, tuple(read_as(line, draft, target) for line in SEMANTICS if line.is_engine)


def read_as(line: Semantics, draft: DraftConfig, target: TargetConfig | None) -> Reading:
    """What the reader of this line does with the drafter."""
    refuses = line.refuses_dialects.get(draft.dialect) or _refused_anchor(line, draft)
    taps, taps_from = _taps(line, draft, target)
    if taps is None and line.taps_absent == "refuse" and draft.is_block_drafter:
        refuses = refuses or "the file names no taps"
    causal, causal_from = _causal(line, draft)
    theta, theta_from = _theta(line, draft)
    neox, neox_from = _layout(line, draft)
    kinds = draft.layer_kinds() or ()
    mixed = 0 < sum(kind == _SLIDING for kind in kinds) < len(kinds)
    return Reading(
        reader=line.reader,
        versions=line.versions,
        refuses=refuses,
        taps=taps,
        taps_from=taps_from,
        num_draft_tokens=_num_draft_tokens(line, draft),
        width_argument=line.width_argument + (" (counts the anchor)" if line.width_counts_anchor else ""),
        mask_token_id=draft.mask_token_id,
        mask_from=draft.sources.get("mask_token_id", ""),
        causal=causal,
        causal_from=causal_from,
        windows=_windows(line, draft),
        rope_theta=theta,
        theta_from=theta_from,
        partial_rotary_factor=(draft.partial_rotary_factor or 1.0)
        if line.partial_factor == "applied"
        else 1.0,
        neox=neox,
        neox_from=neox_from,
        max_position_embeddings=draft.max_position_embeddings,
        keeps_own_head=line.keeps_own_head,
        embedding_scale=(draft.input_embedding_scale or 1.0)
        if draft.dialect in line.scaled_dialects
        else 1.0,
        softcap=draft.final_logit_softcapping if draft.dialect in line.softcapped_dialects else None,
        needs=(line.mixed_layers_need,) if mixed and line.mixed_layers_need else (),
    )


def guessed_taps(num_draft_layers: int, num_target_layers: int) -> tuple[int, ...]:
    """Taps of a config that names none: one per drafter layer, spread from target layer 1 to the third last.

    Source: z-lab's and SGLang's rule, round(1 + i (L - 4) / (n - 1)), and [L // 2] for one drafter layer.
    """
    if num_draft_layers == 1:
        return (num_target_layers // 2,)
    gap = (num_target_layers - 4) / (num_draft_layers - 1)
    return tuple(round(1 + index * gap) for index in range(num_draft_layers))


def _refused_anchor(line: Semantics, draft: DraftConfig) -> str | None:
    nested = draft.nested_sample_from_anchor
    if draft.dialect.startswith("speculators"):
        nested = draft.sample_from_anchor
    if line.refuses_nested_anchor and nested and draft.is_block_drafter and "dspark" not in draft.dialect:
        return "it does not run DFlash blocks whose anchor predicts"
    return None


def _taps(
    line: Semantics, draft: DraftConfig, target: TargetConfig | None
) -> tuple[tuple[int, ...] | None, str]:
    if not line.taps:
        return None, ""
    if draft.dialect not in line.blind_dialects:
        for place in line.taps:
            ids: tuple[int, ...] | None = getattr(draft, place.field)
            if ids:
                return tuple(item + place.shift for item in ids), draft.sources.get(place.field, place.field)
    if draft.dialect == "draft-model":
        return None, ""
    if line.taps_absent == "target-defaults":
        return None, TARGET_DEFAULTS
    num_target = target.num_layers if target is not None else draft.num_target_layers
    can_guess = line.taps_absent == "guess" and draft.is_block_drafter
    if can_guess and draft.num_layers is not None and num_target is not None:
        return guessed_taps(draft.num_layers, num_target), GUESSED
    return None, ""


def _num_draft_tokens(line: Semantics, draft: DraftConfig) -> int | None:
    if draft.block_size is None or not draft.is_block_drafter:
        return None
    rule = line.anchor.get(draft.dialect, line.anchor["*"])
    stated = draft.samples_from_anchor
    predicts = rule != "never" and (stated if stated is not None else rule == "default-true")
    return draft.block_size if predicts else draft.block_size - 1


def _causal(line: Semantics, draft: DraftConfig) -> tuple[tuple[bool, ...] | None, str]:
    for rule in line.causal:
        found = _by_rule(rule, draft)
        if found is not None:
            return found
    return None, ""


def _by_rule(rule: CausalRule, draft: DraftConfig) -> tuple[tuple[bool, ...], str] | None:
    """Causality per layer and where it comes from; `None` where the rule has no answer."""
    kinds = draft.layer_kinds()
    if kinds is None:
        return None
    written_by_speculators = draft.dialect.startswith("speculators")
    flag = draft.sliding_window_non_causal
    if rule == "is_causal" and draft.is_causal is not None:
        return (draft.is_causal,) * len(kinds), draft.sources.get("is_causal", "is_causal")
    if rule == "dflash_config.causal" and draft.causal is not None:
        return (draft.causal,) * len(kinds), draft.sources.get("causal", "dflash_config.causal")
    if rule == "class-default" and draft.dialect == "muse-glimmer":
        return (False,) * len(kinds), "the default of its config class"
    if rule == "speculators-all" and written_by_speculators and draft.dialect != "speculators-dspark":
        where = "sliding_window_non_causal" if flag is not None else "no sliding_window_non_causal"
        return (flag is False,) * len(kinds), where
    if rule == "speculators-sliding":
        where = "sliding_window_non_causal and the layer types"
        non_causal = flag if flag is not None else draft.dialect == "speculators-dflash2"
        return tuple(kind == _SLIDING and not non_causal for kind in kinds), where
    if rule == "layer-types":
        # `use_swa` makes a layer slide and leaves its causality alone.
        named = draft.layer_types or ("full_attention",) * len(kinds)
        return tuple(kind == _SLIDING for kind in named), "the layer types"
    if rule == "never":
        return (False,) * len(kinds), "always bidirectional"
    return None


def _windows(line: Semantics, draft: DraftConfig) -> tuple[int | None, ...] | None:
    if not line.use_swa:
        kinds = draft.layer_types or ("full_attention",) * (draft.num_layers or 0)
        return tuple(draft.sliding_window if kind == _SLIDING else None for kind in kinds)
    kinds = draft.layer_kinds() or ()
    return tuple(draft.window if kind == _SLIDING else None for kind in kinds)


def _theta(line: Semantics, draft: DraftConfig) -> tuple[float | None, str]:
    """`rope_parameters` wins over the top level in every reader of the table."""
    for name in ("nested_rope_theta", "rope_theta"):
        value: float | None = getattr(draft, name)
        if value is not None:
            return value, draft.sources.get(name, name)
    return line.theta_absent_of.get(draft.dialect, line.theta_absent), f"the default of {line.reader}"


def _layout(line: Semantics, draft: DraftConfig) -> tuple[bool, str]:
    for name in line.layout_keys:
        value: bool | None = getattr(draft, name)
        if value is not None:
            return value, draft.sources.get(name, name)
    return line.layout_absent, f"the default of {line.reader}"
