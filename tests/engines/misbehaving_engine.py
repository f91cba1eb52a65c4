"""An in-process engine that does what its target's name says; built inside the child process by tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

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
from dflash_doctor.errors import EngineError, UsageError
from dflash_doctor.evidence import EngineFacts, Generation, RequestTrace


def build_engine(options: EngineOptions) -> Engine:
    if options.target == "refuses":
        raise UsageError("no such argument", seen="foo=1", remedy="drop it")
    if options.target == "cannot-start":
        raise ValueError("expected 384 features but received 256")
    if options.target == "hangs-at-start":
        time.sleep(600)
    return MisbehavingEngine(options)


class MisbehavingEngine:
    name = "misbehaving"

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        if options.target == "leaves-a-process":
            sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(str(options.draft)).write_text(str(sleeper.pid))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            level="token", arms=("speculative",), can_score=True, can_sample=True, can_render=True
        )

    def describe(self) -> EngineFacts:
        return EngineFacts(name=self.name, live={"pid": os.getpid(), "nested": {"a": [1, None]}})

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        return tuple((len(str(item.prompt)), len(thinking)) for item in conversations)

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        return {token: f"<{token}>" for token in token_ids}

    def special_token_ids(self) -> dict[str, int]:
        return {"<think>": 4}

    def chat_template(self) -> str | None:
        return None

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
        match self._options.target:
            case "is-killed":
                print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            case "exits":
                os._exit(7)
            case "hangs":
                time.sleep(600)
            case "fails":
                raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
            case "is-slow-but-alive":
                for done in range(8):
                    time.sleep(0.3)
                    if on_progress is not None:
                        on_progress(done, 8)
        if on_progress is not None:
            on_progress(len(prompts), len(prompts))
        requests = tuple(
            RequestTrace(
                prompt_id=prompt.prompt_id,
                category=prompt.category,
                prompt_ids=prompt.token_ids,
                output_ids=(sampling.max_tokens,),
                text="\x00</script>",
            )
            for prompt in prompts
        )
        return Generation(arm="speculative", requests=requests, captured=capture)

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        if self._options.target == "cannot-score":
            raise EngineError("no scores", seen="nothing", remedy="ask another")
        return tuple(tuple(-float(token) for token in item.token_ids) for item in continuations)

    def close(self) -> None:
        if self._options.target == "will-not-close":
            time.sleep(600)

    def __enter__(self) -> MisbehavingEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
