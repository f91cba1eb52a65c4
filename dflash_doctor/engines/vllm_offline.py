"""Engine `vllm`: the installed vLLM (GPU or CPU build, same code) through its offline interface.

`open_engine` runs it in a child process; `build_engine` is what the child builds. vLLM itself is
imported only there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dflash_doctor.engines.base import (
    Capabilities,
    Continuation,
    Conversation,
    Engine,
    EngineOptions,
    ProgressCallback,
    Sampling,
    TokenizedPrompt,
)
from dflash_doctor.engines.hf_text import HfText
from dflash_doctor.engines.model_folder import require_model_folder
from dflash_doctor.engines.vllm_options import engine_arguments, prepare_environment, require_vllm
from dflash_doctor.engines.vllm_results import CapturedSteps, request_trace
from dflash_doctor.errors import EngineError
from dflash_doctor.evidence import CaptureReport, EngineFacts, Generation, Level


def open_engine(options: EngineOptions) -> Engine:
    """Start vLLM in a child process.

    Raises:
        UsageError: a model folder is missing or is no checkpoint.
        EngineMissingError: vLLM is not installed.
        EngineError: it did not start.
    """
    from dflash_doctor.engines.child import HostedEngine

    require_vllm()
    require_model_folder(options.target, role="target")
    if options.draft is not None:
        require_model_folder(options.draft, role="draft")
    return HostedEngine.start("vllm", "dflash_doctor.engines.vllm_offline:build_engine", options)


def build_engine(options: EngineOptions) -> Engine:
    """Build vLLM in this process."""
    return VllmOffline(options)


class VllmOffline:
    """One `vllm.LLM`, speculative or target-only."""

    name = "vllm"

    def __init__(self, options: EngineOptions) -> None:
        prepare_environment(options)
        from vllm import LLM

        self._arm = options.arm
        self._llm: Any = LLM(**engine_arguments(options))
        self._text = HfText(self._llm.get_tokenizer())
        for shim in options.shims:
            self._llm.collective_rpc("dflash_install_shim", args=(shim.install, shim.parameters))

    @property
    def capabilities(self) -> Capabilities:
        """Token level with speculation, scores from prompt log-probabilities."""
        level: Level = "token" if self._arm == "speculative" else "request"
        return Capabilities(level=level, arms=(self._arm,), can_score=True, can_sample=True, can_render=True)

    def describe(self) -> EngineFacts:
        """See `Engine.describe`."""
        from dflash_doctor.engines.vllm_facts import engine_facts

        llm = self._open()
        return engine_facts(llm.llm_engine.vllm_config, llm.collective_rpc("dflash_facts")[-1])

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """See `Engine.render`."""
        self._open()
        return self._text.render(conversations, thinking=thinking)

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """See `Engine.token_texts`."""
        return self._text.token_texts(token_ids)

    def special_token_ids(self) -> dict[str, int]:
        """See `Engine.special_token_ids`."""
        return self._text.special_token_ids()

    def chat_template(self) -> str | None:
        """See `Engine.chat_template`."""
        return self._text.chat_template()

    def generate(
        self,
        prompts: Sequence[TokenizedPrompt],
        sampling: Sampling,
        *,
        capture: bool,
        logprobs: bool = False,
        max_concurrency: int | None = None,
        fresh: bool = True,
        on_progress: ProgressCallback | None = None,
    ) -> Generation:
        """See `Engine.generate`."""
        from vllm import SamplingParams

        llm = self._open()
        if fresh:
            llm.reset_prefix_cache()
        params = SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            ignore_eos=sampling.ignore_eos,
            # Two, so that the best token not chosen is there whichever was.
            logprobs=2 if logprobs else None,
        )
        with tempfile.TemporaryDirectory(prefix="dflash-capture-") as folder:
            wanted = capture and self._arm == "speculative"
            report = self._start_capture(folder) if wanted else None
            started = time.monotonic()
            outputs = self._run(prompts, params, max_concurrency, on_progress)
            duration = time.monotonic() - started
            if report is not None and report.level == "token":
                report = self._stop_capture()
            steps = CapturedSteps.read(Path(folder), started_s=started)
        traces = tuple(
            request_trace(prompt, output, steps, logprobs=logprobs)
            for prompt, output in zip(prompts, outputs, strict=True)
        )
        return Generation(
            arm=self._arm,
            requests=traces,
            captured=capture,
            capture=_settled(report, traces),
            duration_s=duration,
            max_concurrency=max_concurrency,
        )

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """See `Engine.score`; each token is read back as the last token of a prompt."""
        from vllm import SamplingParams

        llm = self._open()
        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=1)
        prompts = [
            {"prompt_token_ids": [*item.prefix_ids, token]}
            for item in continuations
            for token in item.token_ids
        ]
        outputs = iter(llm.generate(prompts, params, use_tqdm=False) if prompts else ())
        scores = []
        for item in continuations:
            row = []
            for token in item.token_ids:
                last = next(outputs).prompt_logprobs[-1]
                row.append(float(last[token].logprob))
            scores.append(tuple(row))
        return tuple(scores)

    def close(self) -> None:
        """Shut the engine core down."""
        llm, self._llm = self._llm, None
        if llm is not None:
            core = llm.llm_engine.engine_core
            if hasattr(core, "shutdown"):
                core.shutdown()

    def __enter__(self) -> VllmOffline:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> Any:
        if self._llm is None:
            raise EngineError("the vllm engine is closed", seen="use after close", remedy="start another")
        return self._llm

    def _run(
        self,
        prompts: Sequence[TokenizedPrompt],
        params: Any,
        max_concurrency: int | None,
        on_progress: ProgressCallback | None,
    ) -> list[Any]:
        """Outputs in prompt order; at most `max_concurrency` requests are handed over at a time."""
        llm = self._open()
        size = max_concurrency or max(1, len(prompts))
        outputs: list[Any] = []
        for start in range(0, len(prompts), size):
            batch = prompts[start : start + size]
            with _SignsOfLife(llm.llm_engine, on_progress, done=start, total=len(prompts)):
                outputs += llm.generate(
                    [{"prompt_token_ids": list(prompt.token_ids)} for prompt in batch],
                    params,
                    use_tqdm=False,
                )
        return outputs

    def _start_capture(self, folder: str) -> CaptureReport:
        try:
            answers = self._open().collective_rpc("dflash_capture_start", args=(folder,))
        except Exception as error:
            return CaptureReport(level="step", reason=f"the worker hook failed: {error}")
        if any(answer["ok"] for answer in answers):
            return CaptureReport(level="token")
        return CaptureReport(level="step", reason=answers[0]["why"])

    def _stop_capture(self) -> CaptureReport:
        answers = [answer for answer in self._open().collective_rpc("dflash_capture_stop") if answer["ok"]]
        logits = [answer["max_logit"] for answer in answers if answer["max_logit"] is not None]
        errors = [answer["last_error"] for answer in answers if answer["last_error"]]
        return CaptureReport(
            level="token",
            num_steps=max(answer["num_steps"] for answer in answers),
            num_errors=sum(answer["num_errors"] for answer in answers),
            last_error=errors[0] if errors else None,
            max_logit=max(logits, default=None),
        )


def _settled(report: CaptureReport | None, traces: Sequence[Any]) -> CaptureReport | None:
    """The report with the level that the data really reached."""
    if report is None:
        return None
    if report.num_errors:
        reason = f"the capture stopped after an error: {report.last_error}"
    elif report.level == "token" and all(
        trace.steps is None or all(step.draft_ids is not None for step in trace.steps) for trace in traces
    ):
        return report
    else:
        reason = report.reason or "the worker hook saw no verify step"
    has_steps = any(trace.steps for trace in traces)
    return CaptureReport(
        level="step" if has_steps else "request",
        reason=reason,
        num_steps=report.num_steps,
        num_errors=report.num_errors,
        last_error=report.last_error,
        max_logit=report.max_logit,
    )


class _SignsOfLife:
    """Reports progress at every engine step while a batch runs, so that a long answer is not a hang."""

    def __init__(self, engine: Any, on_progress: ProgressCallback | None, *, done: int, total: int) -> None:
        self._engine = engine
        self._on_progress = on_progress
        self._done = done
        self._total = total

    def __enter__(self) -> None:
        report = self._on_progress
        if report is None:
            return
        step = self._engine.step

        def reporting() -> Any:
            outputs = step()
            self._done += sum(1 for output in outputs if output.finished)
            report(self._done, self._total)
            return outputs

        self._engine.step = reporting

    def __exit__(self, *exc: object) -> None:
        self._engine.__dict__.pop("step", None)
