"""Cold time and memory of `check`: the bundled pair, and a target of 400 GB of which no weight is read."""

from __future__ import annotations

import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "checks"))

from doctor_process import PAIR
from pair_files import TARGET, PairFiles, Shapes, write_header

NUM_RUNS = 15
NUM_LAYERS, NUM_EXPERTS, NUM_SHARDS = 64, 160, 100


def expert_tensors() -> Shapes:
    """The tensors of a mixture-of-experts target, about 400 GB in bfloat16."""
    hidden, inner = 4096, 1536
    rows = (TARGET["vocab_size"], hidden)
    shapes: Shapes = {"model.embed_tokens.weight": ("BF16", rows), "lm_head.weight": ("BF16", rows)}
    for layer in range(NUM_LAYERS):
        for expert in range(NUM_EXPERTS):
            prefix = f"model.layers.{layer}.mlp.experts.{expert}"
            shapes[f"{prefix}.gate_proj.weight"] = ("BF16", (inner, hidden))
            shapes[f"{prefix}.up_proj.weight"] = ("BF16", (inner, hidden))
            shapes[f"{prefix}.down_proj.weight"] = ("BF16", (hidden, inner))
    return shapes


def write_large_pair(folder: Path) -> tuple[Path, Path, int]:
    """A sharded target and its drafter; the files are sparse. Returns both folders and the size in bytes."""
    target = folder / "target"
    target.mkdir()
    config = copy.deepcopy(TARGET) | {"num_hidden_layers": NUM_LAYERS}
    (target / "config.json").write_text(json.dumps(config))
    names = list(expert_tensors().items())
    share = -(-len(names) // NUM_SHARDS)
    weight_map = {}
    for index in range(NUM_SHARDS):
        part = dict(names[index * share : (index + 1) * share])
        file = f"model-{index + 1:05}-of-{NUM_SHARDS:05}.safetensors"
        write_header(target / file, part, {})
        weight_map |= dict.fromkeys(part, file)
    (target / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    pair = PairFiles()
    pair.draft["num_target_layers"] = NUM_LAYERS
    pair.names = ("small", "draft")
    pair.write(folder)
    size = sum(file.stat().st_size for file in target.glob("*.safetensors"))
    return target, folder / "draft", size


def measure(target: Path, draft: Path) -> tuple[list[float], int]:
    """Wall seconds of each run, and the largest memory of any in bytes; the first run is dropped."""
    command = [sys.executable, "-m", "dflash_doctor", "check", "--target", str(target), "--draft", str(draft)]
    times, peak = [], 0
    for _ in range(NUM_RUNS + 1):
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        times.append(time.perf_counter() - began)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            raise SystemExit(f"check ended with {process.returncode}")
        peak = max(peak, usage.ru_maxrss * 1024)
    return times[1:], peak


def main() -> None:
    """Print the Markdown table."""
    rows = [
        "| pair | on disk | tensors in headers | median | fastest | memory |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        target, draft, size = write_large_pair(Path(folder))
        cases = (
            ("the bundled pair", PAIR / "target", PAIR / "draft", 4e6, 94),
            (f"a target in {NUM_SHARDS} sparse files", target, draft, size, len(expert_tensors())),
        )
        for name, target_folder, draft_folder, num_bytes, tensors in cases:
            times, peak = measure(target_folder, draft_folder)
            shown = f"{num_bytes / 1e9:,.0f} GB" if num_bytes > 1e8 else f"{num_bytes / 1e6:,.0f} MB"
            rows.append(
                f"| {name} | {shown} | {tensors:,} | {statistics.median(times):.2f} s | {min(times):.2f} s "
                f"| {peak / 1e6:.0f} MB |"
            )
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
