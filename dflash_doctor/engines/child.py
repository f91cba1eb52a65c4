"""An engine in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dflash_doctor.engines import messages
from dflash_doctor.engines.base import (
    Capabilities,
    Continuation,
    Conversation,
    EngineOptions,
    ProgressCallback,
    Sampling,
    TokenizedPrompt,
)
from dflash_doctor.evidence import EngineFacts, Generation
from dflash_doctor.hosting.process import HostedProcess, Hosting

_SERVICE = "dflash_doctor.engines.service:engine_service"

EngineT = TypeVar("EngineT", bound="HostedEngine")


class HostedEngine(HostedProcess):
    """An `Engine` whose work is done in a child process."""

    name: str
    _capabilities: Capabilities | None = None

    @classmethod
    def start(cls: type[EngineT], name: str, builder: str, options: EngineOptions) -> EngineT:
        """Start a child and build the engine in it.

        Args:
            name: the engine's catalog name, for messages.
            builder: `module:function` that makes the engine from options.
            options: sent to the builder.

        Raises:
            EngineError: it did not start; the message holds the telling lines of its log.
            EngineTimeoutError: it was not up within `options.start_timeout_s`.
        """
        engine = cls.spawn(
            Hosting(
                what=f"{name} engine",
                service=_SERVICE,
                argument=builder,
                log_path=options.log_path,
                stall_timeout_s=options.stall_timeout_s,
            )
        )
        engine.name = name
        try:
            call = messages.Start(options)
            engine._capabilities = engine.ask(call, Capabilities, timeout_s=options.start_timeout_s)
        except BaseException:
            engine.kill()
            raise
        return engine

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked."""
        assert self._capabilities is not None, "set by start"
        return self._capabilities

    def describe(self) -> EngineFacts:
        """See `Engine.describe`."""
        facts: EngineFacts = self.ask(messages.Describe(), EngineFacts)
        return facts

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """See `Engine.render`."""
        ids: tuple[tuple[int, ...], ...] = self.ask(
            messages.Render(tuple(conversations), thinking), tuple[tuple[int, ...], ...]
        )
        return ids

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """See `Engine.token_texts`."""
        texts: dict[int, str] = self.ask(messages.TokenTexts(tuple(token_ids)), dict[int, str])
        return texts

    def special_token_ids(self) -> dict[str, int]:
        """See `Engine.special_token_ids`."""
        ids: dict[str, int] = self.ask(messages.SpecialTokenIds(), dict[str, int])
        return ids

    def chat_template(self) -> str | None:
        """See `Engine.chat_template`."""
        template: str | None = self.ask(messages.ChatTemplate(), str | None)
        return template

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
        call = messages.Generate(tuple(prompts), sampling, capture, logprobs, max_concurrency, fresh)
        generation: Generation = self.ask(call, Generation, on_progress=on_progress)
        return generation

    def score(self, continuations: Sequence[Continuation]) -> tuple[tuple[float, ...], ...]:
        """See `Engine.score`."""
        scores: tuple[tuple[float, ...], ...] = self.ask(
            messages.Score(tuple(continuations)), tuple[tuple[float, ...], ...]
        )
        return scores
