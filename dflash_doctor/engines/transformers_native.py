"""Engine `transformers`: Transformers' own DFlash generation, one request at a time; needs no vLLM.

`open_engine` runs it in a child process; `build_engine` is what the child builds.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from dflash_doctor.engines.transformers_capture import StepRecorder, StreamWatch, listening
from dflash_doctor.engines.transformers_drafter import LoadedDrafter, load_drafter, require_fits
from dflash_doctor.engines.transformers_facts import engine_facts
from dflash_doctor.engines.transformers_options import TransformersArguments, check_options
from dflash_doctor.engines.transformers_request import (
    generation_config,
    output_logprobs,
    speculate,
    stop_after,
    token_budget,
    trimmed,
)
from dflash_doctor.engines.transformers_target import (
    choose_threads,
    end_token_ids,
    find_device,
    load_target,
)
from dflash_doctor.errors import DoctorError, EngineError
from dflash_doctor.evidence import (
    CaptureReport,
    EngineFacts,
    Generation,
    RequestTiming,
    RequestTrace,
    VerifyStep,
)


def open_engine(options: EngineOptions) -> Engine:
    """Start it in a child process.

    Raises:
        UsageError: a model folder, the draft config or an engine argument does not fit.
        EngineMissingError: torch or Transformers is not installed.
        EngineError: a model could not be loaded.
    """
    from dflash_doctor.engines.child import HostedEngine

    check_options(options)
    return HostedEngine.start(
        "transformers", "dflash_doctor.engines.transformers_native:build_engine", options
    )


def build_engine(options: EngineOptions) -> Engine:
    """Build it in this process; raises as `open_engine`."""
    return TransformersNative(options, check_options(options))


class TransformersNative:
    """Target and, in the speculative arm, drafter as Transformers models."""

    name = "transformers"

    def __init__(self, options: EngineOptions, arguments: TransformersArguments) -> None:
        import torch
        from transformers import AutoTokenizer, GenerationConfig

        self._options = options
        device = find_device(arguments.device)
        with _our_errors("load the target"):
            self._target, self._unused = load_target(options.target, arguments)
            self._target.to(device)
            choose_threads(self._target)
            remote = arguments.trust_remote_code
            self._text = HfText(AutoTokenizer.from_pretrained(options.target, trust_remote_code=remote))
        self._end_ids = end_token_ids(self._target)
        # `generate` fills what a request leaves open from here: sampling defaults of the checkpoint.
        self._target.generation_config = GenerationConfig()
        self._drafter: LoadedDrafter | None = None
        if options.arm == "speculative":
            assert options.draft is not None, "check_options requires it"
            with _our_errors("load the drafter"):
                self._drafter = load_drafter(
                    options.draft,
                    num_speculative_tokens=options.num_speculative_tokens,
                    dtype=self._target.dtype,
                )
                require_fits(self._drafter, self._target)
                self._drafter.model.to(device)
        self._torch = torch

    @property
    def capabilities(self) -> Capabilities:
        """Token level with speculation, exact scores."""
        return Capabilities(
            level="token" if self._drafter is not None else "request",
            arms=(self._options.arm,),
            can_score=True,
            can_sample=True,
            can_render=True,
        )

    def describe(self) -> EngineFacts:
        """See `Engine.describe`."""
        return engine_facts(
            self._open(), self._drafter, name=self.name, end_ids=self._end_ids, unused=self._unused
        )

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """See `Engine.render`."""
        self._open()
        return self._text.render(conversations, thinking=thinking)

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """See `Engine.token_texts`."""
        self._open()
        return self._text.token_texts(token_ids)

    def special_token_ids(self) -> dict[str, int]:
        """See `Engine.special_token_ids`."""
        self._open()
        return self._text.special_token_ids()

    def chat_template(self) -> str | None:
        """See `Engine.chat_template`."""
        self._open()
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
        """See `Engine.generate`; requests run one after the other whatever `max_concurrency` says.

        `on_progress` hears every step, so that a long answer is not taken for a hang.
        """
        self._open()
        report = on_progress or (lambda done, total: None)
        recording = capture and self._drafter is not None
        started = time.monotonic()
        traces: list[RequestTrace] = []
        recorders: list[StepRecorder] = []
        for index, prompt in enumerate(prompts):
            if sampling.seed is not None:
                self._torch.manual_seed(sampling.seed + index)
            watch = StreamWatch(started_s=started, on_put=lambda: report(len(traces), len(prompts)))
            recorder = StepRecorder(started_s=started) if recording else None
            with _our_errors("generate"):
                trace = self._generate_one(prompt, sampling, watch, recorder, logprobs=logprobs)
            traces.append(trace)
            recorders += [recorder] if recorder is not None else []
            report(len(traces), len(prompts))
        return Generation(
            arm=self._options.arm,
            requests=tuple(traces),
            captured=capture,
            capture=_capture_report(recorders, traces) if recording else None,
            duration_s=time.monotonic() - started,
            max_concurrency=1,
        )

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """See `Engine.score`."""
        target, torch = self._open(), self._torch
        found = []
        # Logits of a whole prefix would take prefix length x vocabulary floats.
        last_row = {"logits_to_keep": 1} if target._supports_logits_to_keep() else {}
        with _our_errors("score"), torch.inference_mode():
            for item in continuations:
                tokens = torch.tensor([item.prefix_ids], device=target.device)
                logprobs = target(input_ids=tokens, **last_row).logits[0, -1].float().log_softmax(-1)
                found.append(tuple(float(logprobs[token]) for token in item.token_ids))
        return tuple(found)

    def close(self) -> None:
        """Drop the models."""
        self._target = self._drafter = None

    def __enter__(self) -> TransformersNative:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open(self) -> Any:
        if self._target is None:
            raise EngineError(
                "the transformers engine is closed", seen="use after close", remedy="start another"
            )
        return self._target

    def _generate_one(
        self,
        prompt: TokenizedPrompt,
        sampling: Sampling,
        watch: StreamWatch,
        recorder: StepRecorder | None,
        *,
        logprobs: bool,
    ) -> RequestTrace:
        torch, target = self._torch, self._target
        prompt_len = len(prompt.token_ids)
        limit = getattr(target.config.get_text_config(), "max_position_embeddings", None)
        budget = token_budget(prompt_len, sampling, max_model_len=limit)
        end_ids = () if sampling.ignore_eos else self._end_ids
        config = generation_config(sampling, budget=budget, end_ids=end_ids, logprobs=logprobs)
        arguments: dict[str, Any] = {}
        if self._drafter is not None:
            speculate(config, block_size=self._drafter.num_spec_tokens + 1)
            criteria = stop_after(prompt_len, budget=budget, end_ids=end_ids, device=target.device)
            arguments = {"assistant_model": self._drafter.model, "stopping_criteria": criteria}
        tokens = torch.tensor([prompt.token_ids], device=target.device)
        with listening(target, recorder), torch.inference_mode():
            began = time.monotonic()
            output = target.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                generation_config=config,
                streamer=watch,
                **arguments,
            )
            ended = time.monotonic()
        new_ids = output.sequences[0, prompt_len:].tolist()
        output_ids, reason = trimmed(new_ids, budget=budget, end_ids=end_ids)
        chosen, runner_up = output_logprobs(output.logits, output_ids) if logprobs else (None, None)
        first = watch.first_token_s or ended
        return RequestTrace(
            prompt_id=prompt.prompt_id,
            category=prompt.category,
            prompt_ids=prompt.token_ids,
            output_ids=output_ids,
            text=self._text.decode(output_ids),
            finish_reason=reason,
            steps=self._steps(watch, recorder),
            timing=RequestTiming(
                ttft_s=first - began, e2e_latency_s=ended - began, decode_s=ended - first, queue_s=0.0
            ),
            output_logprobs=chosen,
            runner_up_logprobs=runner_up,
        )

    def _steps(self, watch: StreamWatch, recorder: StepRecorder | None) -> tuple[VerifyStep, ...] | None:
        """Recorded steps where the recording is whole, else the counts that were streamed."""
        if self._drafter is None:
            return None
        if recorder is not None and recorder.is_whole:
            return tuple(recorder.steps)
        return watch.steps(self._drafter.num_spec_tokens)


def _capture_report(recorders: Sequence[StepRecorder], traces: Sequence[RequestTrace]) -> CaptureReport:
    """How the recording of a pass went; the level is that of its worst request."""
    errors = [recorder.error for recorder in recorders if recorder.error is not None]
    reason = ""
    if errors:
        reason = f"the capture stopped after an error: {errors[0]}"
    elif not all(recorder.attached for recorder in recorders):
        reason = (
            "this Transformers does not hand out its candidate generator; steps are counted from its stream"
        )
    logits = [recorder.max_logit for recorder in recorders if recorder.max_logit is not None]
    return CaptureReport(
        level="step" if reason else "token",
        reason=reason,
        num_steps=sum(len(trace.steps or ()) for trace in traces),
        num_errors=len(errors),
        last_error=errors[-1] if errors else None,
        max_logit=max(logits, default=None),
    )


@contextmanager
def _our_errors(doing: str) -> Iterator[None]:
    """Turn what torch and Transformers raise into `EngineError`; the traceback goes to the engine log."""
    try:
        yield
    except DoctorError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise EngineError(
            f"the transformers engine failed to {doing}",
            seen=f"{type(error).__name__}: {error}",
            remedy="read the engine log, which has the traceback",
        ) from error
