"""Chat template and tokenizer of a live engine, through its Hugging Face tokenizer.

Rendering goes through the same object that the engine itself uses, so what is measured is what would
be served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dflash_doctor.engines.base import Conversation
from dflash_doctor.errors import UsageError

_ENABLE_THINKING = {"off": False, "on": True}


class HfText:
    """Text in, ids out, and back."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def render(self, conversations: Sequence[Conversation], *, thinking: str) -> tuple[tuple[int, ...], ...]:
        """Token ids of each conversation.

        Messages go through the chat template with the generation prompt; raw text is tokenised as it
        is, with the tokenizer's own special tokens.

        Args:
            conversations: messages or raw text.
            thinking: `off` and `on` pass `enable_thinking` to the template, `template` passes nothing.

        Raises:
            UsageError: the template refuses a conversation, or there is none.
        """
        switch = {"enable_thinking": _ENABLE_THINKING[thinking]} if thinking in _ENABLE_THINKING else {}
        return tuple(self._render_one(item, switch) for item in conversations)

    def token_texts(self, token_ids: Sequence[int]) -> dict[int, str]:
        """Text of each token by itself; a token that is part of a character shows as U+FFFD."""
        return {token: self._tokenizer.decode([token], skip_special_tokens=False) for token in token_ids}

    def special_token_ids(self) -> dict[str, int]:
        """Ids of added tokens by their text."""
        return {str(text): int(token) for text, token in self._tokenizer.get_added_vocab().items()}

    def chat_template(self) -> str | None:
        """The template text that `render` uses; `None` where the tokenizer has none."""
        template = getattr(self._tokenizer, "chat_template", None)
        if isinstance(template, dict):  # several by name: without tools the default one is used
            template = template.get("default")
        return template if isinstance(template, str) else None

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of a sequence without special tokens."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text

    def _render_one(self, conversation: Conversation, switch: dict[str, bool]) -> tuple[int, ...]:
        if conversation.messages is None:
            return tuple(self._tokenizer.encode(conversation.prompt or ""))
        try:
            # Rendered to text first: the return type of a tokenising call differs between versions.
            text = self._tokenizer.apply_chat_template(
                list(conversation.messages), add_generation_prompt=True, tokenize=False, **switch
            )
        except Exception as error:
            raise UsageError(
                "the chat template refuses a conversation",
                seen=f"{type(error).__name__}: {error}; roles "
                + ", ".join(str(message.get("role")) for message in conversation.messages),
                remedy="use prompts that this template accepts, or raw `prompt` lines",
            ) from error
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))
