"""An engine as a service of a child process."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from dflash_doctor.engines import messages
from dflash_doctor.engines.base import Engine, EngineOptions
from dflash_doctor.hosting.messages import Close

EngineBuilder = Callable[[EngineOptions], Engine]


def engine_service(builder: str) -> EngineService:
    """The service around the engine that `module:function` builds."""
    module, _, function = builder.partition(":")
    return EngineService(getattr(importlib.import_module(module), function))


class EngineService:
    """Holds the engine and answers one call at a time."""

    call_type: Any = messages.Call

    def __init__(self, build: EngineBuilder) -> None:
        self._build = build
        self._engine: Engine | None = None

    def perform(self, call: messages.Call, progress: Callable[[int, int], None]) -> Any:
        """The answer to a call."""
        if isinstance(call, messages.Start):
            self._engine = self._build(call.options)
            return self._engine.capabilities
        if isinstance(call, Close):
            return self.close()
        engine = self._engine
        assert engine is not None, "the doctor sends Start first"
        match call:
            case messages.Describe():
                return engine.describe()
            case messages.Render():
                return engine.render(call.conversations, thinking=call.thinking)
            case messages.TokenTexts():
                return engine.token_texts(call.token_ids)
            case messages.SpecialTokenIds():
                return engine.special_token_ids()
            case messages.ChatTemplate():
                return engine.chat_template()
            case messages.Generate():
                return engine.generate(
                    call.prompts,
                    call.sampling,
                    capture=call.capture,
                    logprobs=call.logprobs,
                    max_concurrency=call.max_concurrency,
                    fresh=call.fresh,
                    on_progress=progress,
                )
            case messages.Score():
                return engine.score(call.continuations)

    def close(self) -> None:
        """Close the engine, if there is one."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
