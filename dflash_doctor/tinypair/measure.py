"""`python -m dflash_doctor.tinypair.measure FOLDER`: acceptance of a pair's files in the plain reference.

Greedy speculative decoding keeps exactly the target's text, so the target answers every prompt once and the
reference drafter is walked along the answers: no engine is needed, and none of its defects are in the number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dflash_doctor.errors import DoctorError, UsageError

OVERALL = "overall"


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Drafts accepted over a set of verify steps."""

    num_drafts: int
    """Verify steps."""
    num_accepted_draft_tokens: int
    acceptance_rate_per_position: tuple[float, ...]
    """Steps that accepted position i / steps."""

    @classmethod
    def of(cls, accepted: Sequence[int], *, num_spec_tokens: int) -> Acceptance:
        """From the accepted draft tokens of each verify step; there must be a step."""
        return cls(
            num_drafts=len(accepted),
            num_accepted_draft_tokens=sum(accepted),
            acceptance_rate_per_position=tuple(
                sum(count > position for count in accepted) / len(accepted)
                for position in range(num_spec_tokens)
            ),
        )

    @property
    def mean_acceptance_length(self) -> float:
        """1 + accepted / steps, pooled over steps, bonus token included."""
        return 1 + self.num_accepted_draft_tokens / self.num_drafts


def measure_pair(
    folder: str | Path, *, max_tokens: int = 128, report: Callable[[int, int], None] = lambda *_: None
) -> dict[str, Acceptance]:
    """Acceptance over `prompts.jsonl`, float32, thinking off: overall first, then by category.

    Args:
        folder: holds `target/`, `draft/` and `prompts.jsonl`.
        max_tokens: longest answer, in tokens.
        report: called with (prompts walked, prompts).

    Raises:
        UsageError: a file is missing or does not fit.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from dflash_doctor.reference.loading import load_drafter
    from dflash_doctor.tinypair.drafter import accepted_along
    from dflash_doctor.tinypair.target import complete

    place = Path(folder)
    rows = _read_prompts(place / "prompts.jsonl")
    if not (place / "target" / "config.json").is_file():
        raise UsageError(
            "no target to measure",
            seen=f"{place / 'target'} has no config.json",
            remedy="name a pair's folder",
        )
    drafter = load_drafter(place / "draft")
    # Local files only: a relative folder name must never be taken for a hub id.
    tokenizer = AutoTokenizer.from_pretrained(place / "target", local_files_only=True)
    target = AutoModelForCausalLM.from_pretrained(
        place / "target", dtype=torch.float32, local_files_only=True
    ).eval()
    prompts = [_encoded(tokenizer, row["messages"]) for row in rows]
    answers = complete(target, prompts, end_id=tokenizer.eos_token_id, max_tokens=max_tokens)
    steps: dict[str, list[int]] = {OVERALL: []}
    for index, (row, prompt, answer) in enumerate(zip(rows, prompts, answers, strict=True)):
        accepted = accepted_along(drafter, target, prompt + answer, len(prompt))
        steps[OVERALL] += accepted
        steps.setdefault(row["category"], []).extend(accepted)
        report(index + 1, len(rows))
    num_spec_tokens = drafter.config.block_size - 1
    return {
        name: Acceptance.of(counts, num_spec_tokens=num_spec_tokens)
        for name, counts in steps.items()
        if counts
    }


def acceptance_table(measured: dict[str, Acceptance]) -> str:
    """The measurement as a Markdown table, one row a category, in the order measured."""
    heads = ("category", "acceptance length", "verify steps", "accepted at position 1, 2, ...")
    head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    rows = [
        f"| {name} | {item.mean_acceptance_length:.2f} | {item.num_drafts} | "
        f"{' '.join(f'{rate:.2f}' for rate in item.acceptance_rate_per_position)} |"
        for name, item in measured.items()
    ]
    return head + "\n".join(rows)


def _encoded(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    ids: list[int] = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, enable_thinking=False, tokenize=True, return_dict=False
    )
    return ids


def _read_prompts(path: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        wrong = [number for number, row in enumerate(rows, 1) if not {"category", "messages"} <= row.keys()]
        if wrong or not rows:
            raise ValueError(f"line {wrong[0]} lacks category or messages" if wrong else "no prompts")
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(
            "the pair's prompts cannot be read",
            seen=f"{path}: {getattr(error, 'strerror', None) or error}",
            remedy="name a folder that holds target/, draft/ and prompts.jsonl",
        ) from error
    return rows


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    """Print the acceptance of the pair in FOLDER on its own prompts as a table."""
    try:
        click.echo(acceptance_table(measure_pair(folder)))
    except DoctorError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
