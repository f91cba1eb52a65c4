"""The doctor's side of the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dflash_doctor.errors import EngineMissingError
from dflash_doctor.hosting.process import HostedProcess, Hosting
from dflash_doctor.reference import messages
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.trials import DraftProfile

Progress = Callable[[int, int], None]
_SERVICE = "dflash_doctor.reference.service:reference_service"


def require_reference() -> None:
    """Find out, without importing them, that torch and Transformers are there.

    Raises:
        EngineMissingError: one of them is not.
    """
    import importlib.util

    absent = [name for name in ("torch", "transformers", "safetensors") if not importlib.util.find_spec(name)]
    if absent:
        raise EngineMissingError(
            "the reference drafter needs torch and transformers",
            seen=f"not installed: {', '.join(absent)}",
            remedy="pip install 'dflash-doctor[reference]'",
        )


class HostedReference(HostedProcess):
    """Target and drafter in plain PyTorch, in a child process."""

    facts: messages.ReferenceFacts

    @classmethod
    def start(
        cls, options: messages.ReferenceOptions, *, log_path: str | None, start_timeout_s: float
    ) -> HostedReference:
        """Start a child and load the pair in it.

        Raises:
            EngineMissingError: torch or Transformers is not installed.
            EngineError: the child died or the target does not fit in memory.
            UsageError: the pair cannot be loaded; the message says what does not fit.
        """
        require_reference()
        reference = cls.spawn(Hosting(what="reference", service=_SERVICE, log_path=log_path))
        try:
            reference.facts = reference.ask(
                messages.Start(options), messages.ReferenceFacts, timeout_s=start_timeout_s
            )
        except BaseException:
            reference.kill()
            raise
        return reference

    def read_texts(
        self, texts: Sequence[messages.Text], layer_ids: Sequence[int], *, on_progress: Progress | None = None
    ) -> tuple[messages.TextRead, ...]:
        """Run the target along texts and keep the outputs of these layers; texts are numbered from 0 on."""
        call = messages.ReadTexts(tuple(texts), tuple(layer_ids))
        found: tuple[messages.TextRead, ...] = self.ask(
            call, tuple[messages.TextRead, ...], on_progress=on_progress
        )
        return found

    def measure(
        self,
        knobs: Knobs,
        text_numbers: Sequence[int],
        *,
        engine_only: bool = False,
        on_progress: Progress | None = None,
    ) -> tuple[messages.Measured, ...]:
        """Draft along some texts under some knobs.

        Raises:
            UsageError: a knob does not fit this drafter.
        """
        call = messages.MeasureKnobs(knobs, tuple(text_numbers), engine_only)
        found: tuple[messages.Measured, ...] = self.ask(
            call, tuple[messages.Measured, ...], on_progress=on_progress
        )
        return found

    def profile(self, text_numbers: Sequence[int]) -> DraftProfile:
        """The unchanged drafter's drafts along some texts, in detail."""
        found: DraftProfile = self.ask(messages.ProfileDrafts(tuple(text_numbers)), DraftProfile)
        return found
