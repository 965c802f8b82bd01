"""What a method may return when a value is not enough: content blocks, messages, a result with content of its own."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from .strict_json import to_plain
from .values import Value


@dataclass(eq=False, repr=False, kw_only=True)
class ContentBlock(Value):
    """One part of what a tool shows to a model. Use one of the classes below.

    :param annotations: For whom it is and how much it matters: ``audience``, ``priority``, ``lastModified``.
    :param meta: Anything else the client should get beside it.
    """

    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Spell the block as MCP does: members that are not set are left out."""
        members = {**self._members(), "annotations": self.annotations, "_meta": self.meta}
        plain: dict[str, Any] = to_plain({name: value for name, value in members.items() if value is not None})
        return plain

    def _members(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class TextContent(ContentBlock):
    """A text."""

    text: str

    def _members(self) -> dict[str, Any]:
        return {"type": "text", "text": _text(self.text)}


@dataclass(eq=False, repr=False)
class ImageContent(ContentBlock):
    """A picture, as bytes."""

    data: bytes
    mime_type: str = "image/png"

    def _members(self) -> dict[str, Any]:
        return {"type": "image", "data": _base64(self.data), "mimeType": self.mime_type}


@dataclass(eq=False, repr=False)
class AudioContent(ContentBlock):
    """A sound, as bytes."""

    data: bytes
    mime_type: str = "audio/wav"

    def _members(self) -> dict[str, Any]:
        return {"type": "audio", "data": _base64(self.data), "mimeType": self.mime_type}


@dataclass(eq=False, repr=False)
class ResourceLink(ContentBlock):
    """Where there is something to read."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None

    def _members(self) -> dict[str, Any]:
        return {
            "type": "resource_link",
            "uri": self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": self.mime_type,
            "size": self.size,
        }


@dataclass(eq=False, repr=False)
class EmbeddedResource(ContentBlock):
    """Something to read, itself: as text, or as bytes."""

    uri: str
    contents: str | bytes
    mime_type: str | None = None

    def _members(self) -> dict[str, Any]:
        resource: dict[str, Any] = {"uri": self.uri}
        if self.mime_type is not None:
            resource["mimeType"] = self.mime_type
        if isinstance(self.contents, bytes):
            resource["blob"] = _base64(self.contents)
        else:
            resource["text"] = _text(self.contents)
        return {"type": "resource", "resource": resource}


@dataclass(eq=False, repr=False)
class ToolResult(Value):
    """A value together with how to show it.

    :param value: The result itself, as a method would otherwise return it.
    :param content: What a model is shown instead of the value as text.
    :param meta: Anything else the client should get beside it, under ``_meta``.
    """

    value: Any = None
    content: ContentBlock | str | Sequence[ContentBlock | str] = field(default_factory=tuple)
    meta: Mapping[str, Any] | None = None


@dataclass(eq=False, repr=False)
class PromptMessage(Value):
    """One message of a prompt, or of what a model is asked.

    :param role: Who says it: ``user`` or ``assistant``.
    """

    content: ContentBlock | str
    role: str = "user"

    def to_json(self) -> dict[str, Any]:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"the role of a message must be 'user' or 'assistant', not {self.role!r}")
        return {"role": self.role, "content": _as_block(self.content).to_json()}


def messages_of(said: Any) -> list[dict[str, Any]]:
    """Spell messages: a text, a content block, a `PromptMessage`, or several of these.

    :raises TypeError, ValueError: for anything else.
    """
    several = said if isinstance(said, (list, tuple)) else [said]
    messages = [item if isinstance(item, PromptMessage) else PromptMessage(item) for item in several]
    return [message.to_json() for message in messages]


def as_tool_result(returned: Any) -> ToolResult | None:
    """Read a result that has content of its own; ``None`` for a plain value."""
    if isinstance(returned, ToolResult):
        return returned
    if isinstance(returned, ContentBlock):
        return ToolResult(content=[returned])
    if isinstance(returned, (list, tuple)) and any(isinstance(item, ContentBlock) for item in returned):
        return ToolResult(content=returned)
    return None


def blocks_of(result: ToolResult) -> list[dict[str, Any]]:
    """Spell the content of a result; plain strings among it are texts.

    :raises TypeError: for anything else.
    """
    content = [result.content] if isinstance(result.content, (str, ContentBlock)) else result.content
    return [_as_block(item).to_json() for item in content]


def meta_of(result: ToolResult) -> dict[str, Any] | None:
    """Spell what the client gets beside a result.

    :raises TypeError: when it is no mapping.
    """
    if result.meta is None:
        return None
    if not isinstance(result.meta, Mapping):
        raise TypeError(f"the meta of a ToolResult must be a dict, not {type(result.meta).__name__}")
    return dict(to_plain(result.meta))


def is_content_hint(hint: Any) -> bool:
    """Tell whether a return hint speaks of content, for which there is no schema to declare."""
    if isinstance(hint, type) and issubclass(hint, (ContentBlock, ToolResult)):
        return True
    return any(is_content_hint(inner) for inner in get_args(hint))


def _as_block(item: Any) -> ContentBlock:
    block = TextContent(item) if isinstance(item, str) else item
    if not isinstance(block, ContentBlock):
        raise TypeError(f"{type(block).__name__} among content blocks; use TextContent or another of them")
    return block


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the text of a content block must be a str, not {type(text).__name__}")
    return text


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
