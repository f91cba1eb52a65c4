"""The reference as a service of a child process: target and drafter in plain PyTorch on Transformers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from dflash_doctor.checkpoints.pair import read_pair
from dflash_doctor.errors import EngineError, UsageError
from dflash_doctor.hosting.messages import Close
from dflash_doctor.reference import messages
from dflash_doctor.reference.config import read_drafter_config
from dflash_doctor.reference.drafting import Borrowed, Drafting, accepted_at, drafts_at, prepare, walk
from dflash_doctor.reference.knobs import Knobs
from dflash_doctor.reference.loading import DrafterFiles, load_drafter_files
from dflash_doctor.reference.memory import fitting_dtype
from dflash_doctor.reference.profile import ProfileSum
from dflash_doctor.reference.states import StateStore
from dflash_doctor.reference.target import decoder_layers, layer_outputs
from dflash_doctor.trials import DraftProfile

Progress = Callable[[int, int], None]
_MOST_OFFSETS = 8


def reference_service(_argument: str) -> ReferenceService:
    """A service with nothing loaded."""
    return ReferenceService()


class ReferenceService:
    """Holds one pair and the texts it was shown."""

    call_type: Any = messages.Call

    def __init__(self) -> None:
        self._store: StateStore | None = None
        self._tokens: list[torch.Tensor] = []
        self._texts: list[messages.Text] = []

    def perform(self, call: messages.Call, progress: Progress) -> Any:
        """The answer to a call.

        Raises:
            UsageError: the pair cannot be loaded, or a knob does not fit it.
            EngineError: the target does not fit in memory.
        """
        match call:
            case messages.Start():
                return self._start(call.options)
            case messages.ReadTexts():
                return self._read(call.texts, call.layer_ids, progress)
            case messages.MeasureKnobs():
                return self._measure(call.knobs, call.text_numbers, call.engine_only, progress)
            case messages.ProfileDrafts():
                return self._profile(call.text_numbers, progress)
            case Close():
                return self._store.close() if self._store is not None else None

    def _start(self, options: messages.ReferenceOptions) -> messages.ReferenceFacts:
        if options.num_threads:
            torch.set_num_threads(options.num_threads)
        draft = Path(options.draft)
        contract = read_pair(options.target, options.draft)
        config = read_drafter_config(draft, reader=options.reader, target=contract.target_config)
        device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._target = _load_target(options, device)
        self._files = _on_device(load_drafter_files(draft, config, dtype=self._target.dtype), device)
        self._borrowed = Borrowed(
            embedding=self._target.get_input_embeddings().weight,
            head=self._target.get_output_embeddings().weight,
        )
        self._num_draft_tokens = options.num_draft_tokens or config.num_draft_tokens
        self._store = StateStore(options.cache_bytes)
        self._device = device
        self._files = _without_copies(self._files, self._borrowed)
        return messages.ReferenceFacts(
            device=device.type,
            dtype=str(self._target.dtype).removeprefix("torch."),
            num_draft_tokens=self._num_draft_tokens,
            block_size=config.block_size,
            taps=config.target_layer_ids,
            num_target_layers=len(decoder_layers(self._target)),
            num_layers=config.num_layers,
            vocab_rows=self._borrowed.embedding.shape[0],
            tensor_names=tuple(self._files.drafter.state_dict()),
            hidden_size=config.hidden_size,
            missing_tensors=self._files.missing,
            ignored_tensors=self._files.ignored,
            zero_tensors=tuple(
                name
                for name, value in self._files.drafter.state_dict().items()
                if name not in self._files.missing and not value.any()
            ),
            has_own_head=self._files.head is not None,
            has_own_embedding=self._files.embedding is not None,
        )

    def _read(
        self, texts: Sequence[messages.Text], layer_ids: Sequence[int], progress: Progress
    ) -> list[messages.TextRead]:
        assert self._store is not None, "the doctor sends Start first"
        found = []
        for text in texts:
            states, logits = layer_outputs(self._target, text.token_ids, layer_ids)
            self._store.put(len(self._texts), states)
            tokens = torch.tensor(text.token_ids, device=self._device)
            own = logits[text.num_prompt_tokens - 1 : -1].argmax(-1)
            found.append(
                messages.TextRead(
                    target_equal=int((own == tokens[text.num_prompt_tokens :]).sum()),
                    num_answer_tokens=len(text.token_ids) - text.num_prompt_tokens,
                    num_non_finite=sum(int((~value.isfinite()).sum()) for value in states.values()),
                )
            )
            self._texts.append(text)
            self._tokens.append(tokens)
            progress(len(found), len(texts))
        return found

    def _measure(
        self, knobs: Knobs, numbers: Sequence[int], engine_only: bool, progress: Progress
    ) -> list[messages.Measured]:
        drafting = self._prepared(knobs)
        found = []
        for number in numbers:
            found.append(self._measured(drafting, number, engine_only))
            progress(len(found), len(numbers))
        return found

    def _measured(self, drafting: Drafting, number: int, engine_only: bool) -> messages.Measured:
        text, tokens = self._texts[number], self._tokens[number]
        states = self._states(number, drafting)
        first, last = text.num_prompt_tokens, len(text.token_ids) - 1
        steps = [step for step in text.engine_steps if step.anchor < len(tokens)]
        if engine_only:
            anchors = torch.tensor([step.anchor for step in steps], dtype=torch.long, device=self._device)
        else:
            anchors = torch.arange(first, last, device=self._device)
        drafts = drafts_at(drafting, states, tokens, anchors)
        if engine_only:
            accepted: list[int] = []
            at_steps = drafts
        else:
            accepted = accepted_at(drafts, tokens, anchors).tolist()
            steps = [step for step in steps if first <= step.anchor < last]
            rows = torch.tensor(
                [step.anchor - first for step in steps], dtype=torch.long, device=self._device
            )
            at_steps = drafts[rows]
        equal, compared, offsets = _equal(at_steps, steps)
        return messages.Measured(
            accepted=tuple(accepted),
            steps=tuple(walk(accepted, first, len(tokens))) if not engine_only else (),
            engine_equal=equal,
            engine_compared=compared,
            engine_offsets=offsets,
            equal_after_rejection=_equal_after_rejection(at_steps, steps),
        )

    def _profile(self, numbers: Sequence[int], progress: Progress) -> DraftProfile:
        drafting = self._prepared(Knobs())
        total = ProfileSum(self._num_draft_tokens)
        for done, number in enumerate(numbers, 1):
            text, tokens = self._texts[number], self._tokens[number]
            anchors = torch.arange(text.num_prompt_tokens, len(tokens) - 1, device=self._device)
            total.add(drafting, self._states(number, drafting), tokens, anchors)
            progress(done, len(numbers))
        return total.result()

    def _prepared(self, knobs: Knobs) -> Drafting:
        import msgspec

        if knobs.num_draft_tokens is None:
            knobs = msgspec.structs.replace(knobs, num_draft_tokens=self._num_draft_tokens)
        return prepare(self._files, self._borrowed, knobs)

    def _states(self, number: int, drafting: Drafting) -> dict[int, torch.Tensor]:
        assert self._store is not None, "the doctor sends Start first"
        return self._store.get(number, drafting.taps, self._device)


def _equal(drafts: torch.Tensor, steps: Sequence[messages.EngineStep]) -> tuple[int, int, dict[int, int]]:
    """Draft tokens equal to the engine's, tokens compared, and the commonest differences of ids."""
    offsets: Counter[int] = Counter()
    for own, step in zip(drafts.tolist(), steps, strict=True):
        offsets.update(right - left for left, right in zip(own, step.draft_ids, strict=False))
    compared, equal = offsets.total(), offsets.pop(0, 0)
    return equal, compared, dict(offsets.most_common(_MOST_OFFSETS))


def _equal_after_rejection(drafts: torch.Tensor, steps: Sequence[messages.EngineStep]) -> tuple[int, int]:
    """Equal and compared draft tokens at steps behind one that refused a draft."""
    equal = compared = 0
    rows = drafts.tolist()
    for index in range(1, len(steps)):
        before, step = steps[index - 1], steps[index]
        if step.anchor - before.anchor <= len(before.draft_ids):
            pairs = list(zip(rows[index], step.draft_ids, strict=False))
            equal += sum(left == right for left, right in pairs)
            compared += len(pairs)
    return equal, compared


def _load_target(options: messages.ReferenceOptions, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM

    dtype: Any = options.dtype or fitting_dtype(Path(options.target), device)
    try:
        target = AutoModelForCausalLM.from_pretrained(
            options.target,
            dtype=dtype,
            device_map=device.type if device.type != "cpu" else None,
            trust_remote_code=options.trust_remote_code,
            local_files_only=Path(options.target).exists(),
        )
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise EngineError(
            "the target does not fit in this machine's memory for the reference",
            seen=str(error).splitlines()[0],
            remedy="run the experiments on a larger machine, or leave them out: --experiments off",
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise UsageError(
            "Transformers cannot load the target for the reference",
            seen=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            remedy="leave the experiments out (--experiments off), or install a Transformers that knows it",
        ) from error
    return target.eval().requires_grad_(False)


def _on_device(files: DrafterFiles, device: torch.device) -> DrafterFiles:
    import dataclasses

    def moved(value: torch.Tensor | None) -> torch.Tensor | None:
        return None if value is None else value.to(device)

    return dataclasses.replace(
        files,
        drafter=files.drafter.to(device),
        embedding=moved(files.embedding),
        head=moved(files.head),
        vocab_map=moved(files.vocab_map),
    )


def _without_copies(files: DrafterFiles, borrowed: Borrowed) -> DrafterFiles:
    """Own tables that equal the target's are no own tables, as engines see it."""
    import dataclasses

    def own(value: torch.Tensor | None, other: torch.Tensor) -> torch.Tensor | None:
        same = value is not None and value.shape == other.shape and torch.equal(value, other.to(value.dtype))
        return None if same else value

    return dataclasses.replace(
        files,
        embedding=own(files.embedding, borrowed.embedding),
        head=own(files.head, borrowed.head),
    )
