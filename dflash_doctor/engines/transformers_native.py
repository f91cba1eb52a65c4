"""Engine `transformers`: Transformers' own DFlash generation, one request at a time; needs no vLLM.

`open_engine` runs it in a child process; `build_engine` is what the child builds.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import time
from collections.abc import Sequence
from typing import Any

from dflash_doctor.checkpoints.config import read_config
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
from dflash_doctor.engines.transformers_capture import CountingStreamer, StepRecorder
from dflash_doctor.engines.transformers_drafter import dflash_field, load_assistant
from dflash_doctor.errors import EngineError, EngineMissingError, UsageError
from dflash_doctor.evidence import (
    CaptureReport,
    EngineFacts,
    Generation,
    RequestTiming,
    RequestTrace,
)

ENGINE_ARGS = ("dtype", "device", "attn_implementation", "trust_remote_code")


def open_engine(options: EngineOptions) -> Engine:
    """Start it in a child process.

    Raises:
        UsageError: a model folder or an engine argument does not fit.
        EngineMissingError: torch or Transformers is not installed.
    """
    from dflash_doctor.engines.child import HostedEngine

    _require_installed()
    require_model_folder(options.target, role="target")
    if options.draft is not None:
        require_model_folder(options.draft, role="draft")
    return HostedEngine.start(
        "transformers", "dflash_doctor.engines.transformers_native:build_engine", options
    )


def build_engine(options: EngineOptions) -> Engine:
    """Build it in this process."""
    _require_known(options.engine_args)
    if options.arm == "speculative" and options.method != "dflash":
        raise UsageError(
            "the transformers engine speculates with DFlash only",
            seen=f"method {options.method}",
            remedy="use --method dflash or another engine",
        )
    return TransformersNative(options)


class TransformersNative:
    """Target and, in the speculative arm, drafter as Transformers models."""

    name = "transformers"

    def __init__(self, options: EngineOptions) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._options = options
        arguments = options.engine_args
        remote = bool(arguments.get("trust_remote_code", False))
        device = arguments.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")
        loading: dict[str, Any] = {"dtype": arguments.get("dtype", "auto"), "trust_remote_code": remote}
        if "attn_implementation" in arguments:
            loading["attn_implementation"] = arguments["attn_implementation"]
        self._target: Any = AutoModelForCausalLM.from_pretrained(options.target, **loading).to(device).eval()
        self._assistant: Any = None
        if options.arm == "speculative":
            assert options.draft is not None, "the plan requires a drafter for dflash"
            assistant = load_assistant(
                options.draft,
                num_speculative_tokens=options.num_speculative_tokens,
                dtype=self._target.dtype,
            )
            self._assistant = assistant.to(device)
        self._text = HfText(AutoTokenizer.from_pretrained(options.target, trust_remote_code=remote))
        self._torch = torch

    @property
    def capabilities(self) -> Capabilities:
        """Token level with speculation, exact scores."""
        return Capabilities(
            level="token" if self._assistant is not None else "request",
            arms=(self._options.arm,),
            can_score=True,
            can_sample=True,
            can_render=True,
        )

    def describe(self) -> EngineFacts:
        """See `Engine.describe`."""
        target = self._open()
        assistant, config = self._assistant, read_config(self._options.draft or "") or {}
        attention = str(target.config._attn_implementation)
        live: dict[str, Any] = {"target_class": type(target).__name__}
        if assistant is not None:
            live["draft_layer_types"] = list(assistant.config.layer_types)
            live["note"] = "Transformers runs every drafter layer bidirectionally"
        return EngineFacts(
            name=self.name,
            version=importlib.metadata.version("transformers"),
            device=str(target.device),
            dtype=str(target.dtype).removeprefix("torch."),
            runner=f"{type(target).__module__}.{type(target).__name__}",
            async_scheduling=False,
            enforce_eager=True,
            prefix_caching=False,
            max_num_seqs=1,
            max_model_len=getattr(target.config, "max_position_embeddings", None),
            num_target_layers=target.config.num_hidden_layers,
            target_attention=(attention,),
            draft_attention=() if assistant is None else (str(assistant.config._attn_implementation),),
            method=None if assistant is None else "dflash",
            num_spec_tokens=None if assistant is None else assistant.config.block_size - 1,
            block_size=dflash_field(config, "block_size"),
            mask_token_id=None if assistant is None else assistant.config.mask_token_id,
            target_layer_ids=None if assistant is None else tuple(assistant.config.target_layer_ids),
            draft_class=None if assistant is None else type(assistant).__name__,
            lm_head_shared=None if assistant is None else True,
            embedding_shared=None if assistant is None else True,
            draft_layers_causal=None if assistant is None else (False,) * assistant.config.num_hidden_layers,
            live=live,
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
        on_progress: ProgressCallback | None = None,
    ) -> Generation:
        """See `Engine.generate`; requests run one after the other whatever `max_concurrency` says."""
        self._open()
        started = time.monotonic()
        recording = capture and self._assistant is not None
        traces, level_reason, max_logit = [], "", None
        for index, prompt in enumerate(prompts):
            if sampling.seed is not None:
                self._torch.manual_seed(sampling.seed + index)
            recorder = (
                StepRecorder(greedy=sampling.temperature == 0, started_s=started) if recording else None
            )
            trace = self._generate_one(prompt, sampling, recorder, logprobs=logprobs)
            traces.append(trace)
            if recorder is not None:
                max_logit = max(filter(None, (max_logit, recorder.max_logit)), default=None)
                if not recorder.steps and trace.steps:
                    level_reason = "this Transformers does not hand its candidates to a recorder"
            if on_progress is not None:
                on_progress(index + 1, len(prompts))
        report = None
        if recording:
            report = CaptureReport(
                level="step" if level_reason else "token",
                reason=level_reason,
                num_steps=sum(len(trace.steps or ()) for trace in traces),
                max_logit=max_logit,
            )
        return Generation(
            arm=self._options.arm,
            requests=tuple(traces),
            captured=capture,
            capture=report,
            duration_s=time.monotonic() - started,
            max_concurrency=1,
        )

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """See `Engine.score`."""
        target, torch = self._open(), self._torch
        found = []
        for item in continuations:
            tokens = torch.tensor([item.prefix_ids], device=target.device)
            with torch.inference_mode():
                logprobs = target(input_ids=tokens).logits[0, -1].float().log_softmax(-1)
            found.append(tuple(float(logprobs[token]) for token in item.token_ids))
        return tuple(found)

    def close(self) -> None:
        """Drop the models."""
        self._target = self._assistant = None

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
        recorder: StepRecorder | None,
        *,
        logprobs: bool,
    ) -> RequestTrace:
        torch, target = self._torch, self._target
        tokens = torch.tensor([prompt.token_ids], device=target.device)
        arguments = _generation_arguments(sampling, logprobs=logprobs)
        streamer = None
        if self._assistant is not None:
            arguments |= {"assistant_model": self._assistant, "speculation_type": "dflash"}
            streamer = CountingStreamer()
        clock = _FirstTokenClock(streamer)
        make = type(target)._get_candidate_generator
        if recorder is not None:
            target._get_candidate_generator = lambda **kwargs: recorder.around(make(target, **kwargs))
        began = time.monotonic()
        try:
            with torch.inference_mode():
                output = target.generate(
                    input_ids=tokens,
                    attention_mask=torch.ones_like(tokens),
                    streamer=clock,
                    **arguments,
                )
        finally:
            target.__dict__.pop("_get_candidate_generator", None)
        ended = time.monotonic()
        output_ids = tuple(output.sequences[0, tokens.shape[1] :].tolist())
        chosen, runner_up = _logprobs(output, output_ids) if logprobs else (None, None)
        steps = None
        if streamer is not None:
            recorded = tuple(recorder.steps) if recorder is not None else ()
            steps = recorded or streamer.steps(self._assistant.config.block_size - 1)
        first = clock.first_token_s if clock.first_token_s is not None else ended
        return RequestTrace(
            prompt_id=prompt.prompt_id,
            category=prompt.category,
            prompt_ids=prompt.token_ids,
            output_ids=output_ids,
            text=self._text.decode(output_ids),
            finish_reason="length" if len(output_ids) >= sampling.max_tokens else "stop",
            steps=steps,
            timing=RequestTiming(
                ttft_s=first - began, e2e_latency_s=ended - began, decode_s=ended - first, queue_s=0.0
            ),
            output_logprobs=chosen,
            runner_up_logprobs=runner_up,
        )


class _FirstTokenClock:
    """A streamer that notes when the first token came, and passes everything on."""

    def __init__(self, inner: CountingStreamer | None) -> None:
        self._inner = inner
        self._num_puts = 0
        self.first_token_s: float | None = None

    def put(self, value: Any) -> None:
        """The first put is the prompt, the second the first token."""
        self._num_puts += 1
        if self._num_puts == 2:
            self.first_token_s = time.monotonic()
        if self._inner is not None:
            self._inner.put(value)

    def end(self) -> None:
        """Nothing to finish."""


def _generation_arguments(sampling: Sampling, *, logprobs: bool) -> dict[str, Any]:
    greedy = sampling.temperature == 0
    arguments: dict[str, Any] = {
        "max_new_tokens": sampling.max_tokens,
        "do_sample": not greedy,
        "return_dict_in_generate": True,
        "output_logits": logprobs,
    }
    if not greedy:
        arguments |= {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
        }
    if sampling.ignore_eos:
        arguments["eos_token_id"] = -1
    return arguments


def _logprobs(output: Any, output_ids: Sequence[int]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Log-probability of each output token, and of the best token not chosen there."""
    chosen, runner_up = [], []
    for token, row in zip(output_ids, output.logits, strict=False):
        logprobs = row[0].float().log_softmax(-1)
        chosen.append(float(logprobs[token]))
        best = logprobs.topk(2)
        other = 1 if int(best.indices[0]) == token else 0
        runner_up.append(float(best.values[other]))
    return tuple(chosen), tuple(runner_up)


def _require_known(arguments: dict[str, Any]) -> None:
    for name in arguments:
        if name not in ENGINE_ARGS:
            near = difflib.get_close_matches(name, ENGINE_ARGS, n=1)
            raise UsageError(
                "the transformers engine has no such argument",
                seen=f"--engine-arg {name}=...",
                remedy=f"did you mean {near[0]}?" if near else "valid: " + ", ".join(ENGINE_ARGS),
            )


def _require_installed() -> None:
    for package in ("torch", "transformers"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise EngineMissingError(
                f"{package} is not installed",
                seen="the transformers engine needs torch and transformers",
                remedy="pip install 'dflash-doctor[reference]'",
            ) from None
