"""What the static reading says of vLLM is what the live engine does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doctor_process import PAIR, RealRun, require_vllm, run_doctor

from dflash_doctor.records import RunRecord

pytestmark = pytest.mark.engine


def speculators_drafter(folder: Path, **changes: Any) -> Path:
    """The bundled drafter as speculators would have written it: another config, the same weights."""
    draft = folder / "draft"
    shutil.copytree(PAIR / "draft", draft)
    config = json.loads((draft / "config.json").read_text())
    nested, block = config.pop("dflash_config"), config.pop("block_size")
    del config["architectures"], config["num_target_layers"]
    written = {
        "architectures": ["DFlashSpeculator"],
        "speculators_model_type": "dflash",
        "speculators_config": {
            "algorithm": "dflash",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": block - 1}],
            "verifier": {"name_or_path": str(PAIR / "target"), "architectures": ["Qwen3ForCausalLM"]},
        },
        "block_size": block,
        "mask_token_id": nested["mask_token_id"],
        "draft_vocab_size": config["vocab_size"],
        "aux_hidden_state_layer_ids": [tap + 1 for tap in nested["target_layer_ids"]],
        "transformer_layer_config": config,
    }
    (draft / "config.json").write_text(json.dumps(written | changes, indent=1))
    return draft


def record_of(draft: Path, folder: Path) -> RunRecord:
    result = run_doctor(
        "diagnose",
        "--target", str(PAIR / "target"),
        "--draft", str(draft),
        "--max-prompts", "40",
        "--experiments", "off",
        "--engine-arg", "dtype=float32",
        "--output", str(folder / "run"),
        "--json",
        cwd=folder,
    )  # fmt: skip
    return msgspec.json.decode(result.stdout.encode(), type=RunRecord)


def require_agreement(record: RunRecord) -> None:
    assert record.contract is not None
    assert record.contract.pair is not None
    reading, facts = record.contract.pair.reading("vllm"), record.engine
    assert reading is not None
    assert facts is not None
    assert reading.causal == facts.draft_layers_causal
    # The engine numbers the stream that enters a layer: one more than the layer whose output it is.
    assert facts.aux_hidden_state_layers is not None
    assert reading.taps == tuple(layer - 1 for layer in facts.aux_hidden_state_layers)
    assert reading.num_draft_tokens == facts.num_spec_tokens
    assert reading.mask_token_id == facts.mask_token_id


def test_reading_when_z_lab_wrote_the_drafter_then_the_live_engine_agrees(real_run: RealRun) -> None:
    require_agreement(msgspec.json.decode(real_run.result.stdout.encode(), type=RunRecord))


@pytest.fixture(scope="module")
def as_trained(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    require_vllm()
    folder = tmp_path_factory.mktemp("trained")
    return record_of(speculators_drafter(folder, sliding_window_non_causal=True), folder)


@pytest.fixture(scope="module")
def misread(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    require_vllm()
    folder = tmp_path_factory.mktemp("misread")
    return record_of(speculators_drafter(folder, sliding_window_non_causal=False), folder)


def test_reading_when_speculators_wrote_the_drafter_then_the_live_engine_agrees(
    as_trained: RunRecord, misread: RunRecord
) -> None:
    require_agreement(as_trained)
    require_agreement(misread)
    assert as_trained.verdict == "passed"


def test_check_when_vllm_runs_every_layer_causal_then_the_loss_that_it_names_is_real(
    as_trained: RunRecord, misread: RunRecord
) -> None:
    assert misread.verdict == "failed"
    assert misread.diagnosis[0].cause == "causal-flag"
    failed = {check.code for check in misread.checks if check.verdict == "failed"}
    assert failed == {"DF118"}, "the output is still the target's own: nothing else notices"
    lengths = [
        record.metrics.overall.mean_acceptance_length.value if record.metrics.overall else None
        for record in (as_trained, misread)
    ]
    assert lengths[0] is not None
    assert lengths[1] is not None
    assert lengths[1] < 0.98 * lengths[0]
