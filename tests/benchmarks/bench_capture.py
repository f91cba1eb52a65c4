"""What the capture of draft tokens costs: CPU time of a pass with it against a pass without, in turn.

Each round runs both in random order on one engine; the ratio is taken within a round, so that a machine
whose speed drifts does not matter. CPU time counts everything in the process, reading the capture included.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.engines.base import Conversation, EngineOptions, Sampling, TokenizedPrompt
from dflash_doctor.engines.vllm_offline import build_engine
from dflash_doctor.workloads.prompts import load_prompts

NUM_ROUNDS = 15
MAX_TOKENS = 128


def measure(num_prompts: int) -> tuple[list[float], list[float], list[float]]:
    """Per round: CPU ratio, wall ratio, output tokens a second without capture."""
    pair = bundled_fixtures() / "tiny_pair"
    options = EngineOptions(target=str(pair / "target"), draft=str(pair / "draft"), num_speculative_tokens=7)
    prompts = load_prompts(pair / "prompts.jsonl").prompts[:: 200 // num_prompts][:num_prompts]
    with build_engine(options) as engine:
        ids = engine.render([Conversation(messages=item.messages) for item in prompts], thinking="off")
        requests = [
            TokenizedPrompt(prompt_id=item.id, category=item.category, token_ids=tokens)
            for item, tokens in zip(prompts, ids, strict=True)
        ]

        def one_pass(capture: bool) -> tuple[float, float, int]:
            cpu, wall = time.process_time(), time.perf_counter()
            generation = engine.generate(requests, Sampling(max_tokens=MAX_TOKENS), capture=capture)
            tokens = sum(len(trace.output_ids) for trace in generation.requests)
            return time.process_time() - cpu, time.perf_counter() - wall, tokens

        one_pass(True), one_pass(False)
        generator = random.Random(0)
        cpu_ratios, wall_ratios, speeds = [], [], []
        for _ in range(NUM_ROUNDS):
            order = [True, False]
            generator.shuffle(order)
            seen = {capture: one_pass(capture) for capture in order}
            cpu_ratios.append(seen[True][0] / seen[False][0])
            wall_ratios.append(seen[True][1] / seen[False][1])
            speeds.append(seen[False][2] / seen[False][1])
    return cpu_ratios, wall_ratios, speeds


def main() -> None:
    """Print the Markdown table."""
    heads = ("in flight", "CPU time with / without", "range", "wall time", "tokens/s without")
    rows = ["| " + " | ".join(heads) + " |", "|---|---|---|---|---|"]
    for num_prompts in map(int, sys.argv[1:] or ["64", "200"]):
        cpu, wall, speed = measure(num_prompts)
        rows.append(
            f"| {num_prompts} | {statistics.median(cpu):.3f} | {min(cpu):.3f} to {max(cpu):.3f} | "
            f"{statistics.median(wall):.3f} | {statistics.median(speed):,.0f} |"
        )
    sys.stdout.write("\n".join(rows) + f"\n\nMedian of {NUM_ROUNDS} interleaved rounds.\n")


if __name__ == "__main__":
    main()
