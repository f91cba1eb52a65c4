"""Finds and reads the chat template of a checkpoint folder as an engine would, whatever the files hold.

Order of precedence, as Transformers has it: `chat_template.jinja` (with `additional_chat_templates/`),
`chat_template.json` (written for processors), `chat_template` in `tokenizer_config.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from dflash_doctor.checkpoints.files import UnfitFileError, read_if_there

_MAX_TEMPLATE_BYTES = 1024 * 1024
"""The longest in use are some 30 kB."""
_MAX_JSON_BYTES = 32 * 1024 * 1024
"""A tokenizer_config.json that lists every added token can have a few megabytes."""
_MAX_NAMED_TEMPLATES = 16

_SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
"""The ones Transformers passes to a template by name."""


class TemplateSource(msgspec.Struct, frozen=True, kw_only=True):
    """A folder's template as text, with the special tokens that it may name."""

    file: str | None = None
    field: str | None = None
    texts: dict[str, str] = msgspec.field(default_factory=dict)
    """By name; `default` is the one used without tools."""
    special_tokens: dict[str, str] = msgspec.field(default_factory=dict)
    problem: str | None = None
    """Why `texts` is empty."""

    @property
    def sha256(self) -> str | None:
        """Of the one text, or of all with their names; `None` without any."""
        if not self.texts:
            return None
        if set(self.texts) == {"default"}:
            return hashlib.sha256(self.texts["default"].encode()).hexdigest()
        return hashlib.sha256(msgspec.json.encode(sorted(self.texts.items()))).hexdigest()


class _Named(msgspec.Struct):
    name: str
    template: str


class _TokenizerConfig(msgspec.Struct):
    """Only what is needed, so that the rest of a large file is skipped and not built."""

    chat_template: msgspec.Raw = msgspec.Raw()
    bos_token: msgspec.Raw = msgspec.Raw()
    eos_token: msgspec.Raw = msgspec.Raw()
    unk_token: msgspec.Raw = msgspec.Raw()
    sep_token: msgspec.Raw = msgspec.Raw()
    pad_token: msgspec.Raw = msgspec.Raw()
    cls_token: msgspec.Raw = msgspec.Raw()
    mask_token: msgspec.Raw = msgspec.Raw()


class _AddedToken(msgspec.Struct):
    content: str


def read_template(folder: Path) -> TemplateSource:
    """The template of a folder; never raises for what the files hold, `problem` says what is wrong."""
    special_tokens: dict[str, str] = {}
    # A problem with that file is said below, if the template would have been in it.
    with contextlib.suppress(UnfitFileError):
        special_tokens = _special_tokens(folder)
    for file, reader in (
        ("chat_template.jinja", _from_jinja),
        ("chat_template.json", _from_json),
        ("tokenizer_config.json", _from_json),
    ):
        field = "chat_template" if file.endswith(".json") else None
        try:
            texts = reader(folder, file)
        except UnfitFileError as error:
            return TemplateSource(
                file=file, field=field, special_tokens=special_tokens, problem=f"{file}: {error}"
            )
        if texts:
            return TemplateSource(file=file, field=field, texts=texts, special_tokens=special_tokens)
    return TemplateSource(special_tokens=special_tokens, problem="the folder has no chat template")


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnfitFileError(f"it is not UTF-8 (byte {error.start})") from error


def _from_jinja(folder: Path, file: str) -> dict[str, str]:
    content = read_if_there(folder / file, max_bytes=_MAX_TEMPLATE_BYTES)
    texts = {} if content is None else {"default": _universal_newlines(_text(content))}
    extra = folder / "additional_chat_templates"
    if not extra.is_dir() or extra.is_symlink():
        return texts
    for path in sorted(extra.glob("*.jinja"))[:_MAX_NAMED_TEMPLATES]:
        more = read_if_there(path, max_bytes=_MAX_TEMPLATE_BYTES)
        if more is not None:
            texts[path.stem] = _universal_newlines(_text(more))
    return texts


def _universal_newlines(text: str) -> str:
    """As Python's text mode reads it, which is how the file is read when it is served."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _from_json(folder: Path, file: str) -> dict[str, str]:
    content = read_if_there(folder / file, max_bytes=_MAX_JSON_BYTES)
    if content is None:
        return {}
    raw = _decode(content).chat_template
    if not bytes(raw):
        return {}
    try:
        value = msgspec.json.decode(raw, type=str | list[_Named] | dict[str, str] | None)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnfitFileError(
            f"its chat_template is neither text nor a list of named templates ({error})"
        ) from error
    if value is None:
        return {}
    if isinstance(value, str):
        texts = {"default": value}
    elif isinstance(value, dict):
        texts = value
    else:
        texts = {item.name: item.template for item in value}
    if len(texts) > _MAX_NAMED_TEMPLATES:
        raise UnfitFileError(f"it has {len(texts)} named templates")
    if sum(map(len, texts.values())) > _MAX_TEMPLATE_BYTES:
        raise UnfitFileError(f"it holds a template of more than {_MAX_TEMPLATE_BYTES:,} characters")
    return texts


def _special_tokens(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        content = read_if_there(folder / file, max_bytes=_MAX_JSON_BYTES)
        if content is None:
            continue
        config = _decode(content)
        for name in _SPECIAL_TOKENS:
            token = _token(getattr(config, name))
            if token is not None:
                found.setdefault(name, token)
    return found


def _token(raw: msgspec.Raw) -> str | None:
    if not bytes(raw):
        return None
    try:
        value = msgspec.json.decode(raw, type=str | _AddedToken | None)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return value.content if isinstance(value, _AddedToken) else value


def _decode(content: bytes) -> _TokenizerConfig:
    try:
        return msgspec.json.decode(content, type=_TokenizerConfig)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnfitFileError(f"it is not the JSON object it should be ({error})") from error
