"""The mask token is missing, out of range, special, or an ordinary token

## What it checks

The id that fills the block's open slots: stated, inside the embedding table, not the end of text, padding
or the like, not a token that ordinary text contains. Families that keep the mask's embedding in a file of
its own must have that file.

An ordinary id of its own that is not the trained one cannot be seen here; acceptance is poor then, which
`dflash-doctor diagnose` measures.

## Why it matters

Everything loads with a wrong id; the first position is accepted at 30 percent and the rest dies out (1.45
instead of 4.30 on the bundled pair). Converters have written the padding id as a placeholder, or taken the
tokenizer's mask over the config's (sgl-project/SpecForge#604, lightseekorg/TorchSpec#133).

## Example

    DF131 the mask token is the target's end of text
      seen:     mask_token_id 151643, which is <|endoftext|> (eos)

## What to do

Restore the id, or the file mask_embedding.pt, from the original release.
"""

from __future__ import annotations

from dflash_doctor.checks.base import Case, Outcome, settled
from dflash_doctor.checks.pair_view import PairView, pair_view
from dflash_doctor.records import Finding, Severity

_EMBEDDINGS = ("embed_tokens.weight", "model.embed_tokens.weight", "embed_in.weight", "wte.weight")


def judge(case: Case) -> Outcome:
    """Judge the id by config, embedding and tokenizer."""
    view = pair_view(case)
    if isinstance(view, Outcome):
        return view
    findings, compared, unchecked = [], [], []
    if view.pair.needs_mask_embedding and not view.draft.has_mask_embedding:
        findings.append(_finding(view, "the drafter's own mask embedding is missing", "no mask_embedding.pt"))
    mask = view.config.mask_token_id
    if mask is None:
        findings.append(_finding(view, "the drafter's config names no mask token", "no mask_token_id"))
        return settled(findings, compared=[])
    rows = _rows(view)
    if mask < 0 or (rows is not None and mask >= rows):
        seen = f"mask_token_id {mask:,}; the embedding has {rows:,} rows"
        findings.append(_finding(view, "the mask token lies outside the embedding", seen))
        return settled(findings, compared=[])
    if rows is None:
        unchecked.append("whether the id lies inside the embedding (its size is not known)")
    else:
        compared.append(f"mask_token_id {mask:,} lies within {rows:,} embedding rows")
    findings += _by_tokenizer(view, mask, compared, unchecked)
    return settled(findings, compared=compared, unchecked=unchecked)


def _rows(view: PairView) -> int | None:
    """Rows of the embedding that the block is embedded with."""
    for tensors in (view.draft.tensors, view.target.tensors):
        for item in tensors or ():
            if item.name.endswith(_EMBEDDINGS) and len(item.shape) == 2:
                return item.shape[0]
    return view.target_config.vocab_size if view.target_config is not None else None


def _by_tokenizer(view: PairView, mask: int, compared: list[str], unchecked: list[str]) -> list[Finding]:
    """What the target's tokenizer says the id is."""
    token = view.contract.mask_token
    if token is None:
        unchecked.append("what the target's tokenizer says of the id")
        return []
    named = f"mask_token_id {mask:,}, which is {token.text!r}" if token.text else f"mask_token_id {mask:,}"
    roles = [role for role in token.roles if role != "mask"]
    if roles:
        return [_finding(view, "the mask token has another part to play", f"{named} ({', '.join(roles)})")]
    if token.kind == "ordinary":
        seen = f"{named}, an ordinary token of the target's tokenizer"
        return [_finding(view, "the mask token occurs in ordinary text", seen, severity="warning")]
    compared.append(f"{'an unused row' if token.kind == 'absent' else repr(token.text)} for the mask")
    return []


def _finding(view: PairView, message: str, observed: str, *, severity: Severity = "error") -> Finding:
    return Finding(
        code="DF131",
        severity=severity,
        message=message,
        observed=observed,
        expected="an id of its own, as the drafter was trained",
        remedy="restore the mask token (or its embedding) from the original release",
        where=view.in_draft("mask_token_id"),
        causes=("mask-token-wrong",),
    )
