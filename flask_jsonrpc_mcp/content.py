"""Return values of methods besides plain ones: content blocks, prompt messages, `ToolResult`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from .strict_json import is_lazy, to_plain


@dataclass(frozen=True, kw_only=True)
class ContentBlock:
    """A block of content for a model. Use one of the subclasses.

    :param annotations: MCP's ``audience``, ``priority`` and ``lastModified``.
    :param meta: Sent to the client as ``_meta``.
    """

    annotations: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the block as MCP defines it, without members that are not set."""
        members = {**self._members(), "annotations": self.annotations, "_meta": self.meta}
        plain: dict[str, Any] = to_plain({name: value for name, value in members.items() if value is not None})
        return plain

    def _members(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class TextContent(ContentBlock):
    """A text."""

    text: str

    def _members(self) -> dict[str, Any]:
        return {"type": "text", "text": _text(self.text)}


@dataclass(frozen=True)
class ImageContent(ContentBlock):
    """An image, as bytes."""

    data: bytes
    mime_type: str = "image/png"

    def _members(self) -> dict[str, Any]:
        return {"type": "image", "data": _base64(self.data), "mimeType": self.mime_type}


@dataclass(frozen=True)
class AudioContent(ContentBlock):
    """Audio, as bytes."""

    data: bytes
    mime_type: str = "audio/wav"

    def _members(self) -> dict[str, Any]:
        return {"type": "audio", "data": _base64(self.data), "mimeType": self.mime_type}


@dataclass(frozen=True)
class ResourceLink(ContentBlock):
    """A link to a resource."""

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


@dataclass(frozen=True)
class EmbeddedResource(ContentBlock):
    """The contents of a resource, as text or bytes."""

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


@dataclass(frozen=True)
class ToolResult:
    """A result with its own content blocks.

    :param value: The result, as the method would otherwise return it.
    :param content: Content blocks for the model, instead of the value as text.
    :param meta: Sent to the client as ``_meta``.
    """

    value: Any = None
    content: ContentBlock | str | Sequence[ContentBlock | str] = field(default_factory=tuple)
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PromptMessage:
    """A message of a prompt, or of a sampling request.

    :param role: ``user`` or ``assistant``.
    """

    content: ContentBlock | str
    role: str = "user"

    def to_json(self) -> dict[str, Any]:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"the role of a message must be 'user' or 'assistant', not {self.role!r}")
        return {"role": self.role, "content": _as_block(self.content).to_json()}


def messages_of(returned: Any) -> list[dict[str, Any]]:
    """Convert a string, a content block, a `PromptMessage` or a list of these to messages.

    :raises TypeError, ValueError: for anything else.
    """
    several = returned if isinstance(returned, (list, tuple)) else [returned]
    messages = [item if isinstance(item, PromptMessage) else PromptMessage(item) for item in several]
    return [message.to_json() for message in messages]


def as_tool_result(returned: Any) -> ToolResult | None:
    """Return the `ToolResult` of a result with content blocks; ``None`` for a plain value."""
    if isinstance(returned, ToolResult):
        return returned
    if isinstance(returned, ContentBlock):
        return ToolResult(content=[returned])
    if isinstance(returned, (list, tuple)) and any(isinstance(item, ContentBlock) for item in returned):
        return ToolResult(content=returned)
    return None


def blocks_of(result: ToolResult) -> list[dict[str, Any]]:
    """Convert the content of a result; strings become text blocks.

    :raises TypeError: for anything else.
    """
    content = [result.content] if isinstance(result.content, (str, ContentBlock)) else result.content
    return [_as_block(item).to_json() for item in content]


def meta_of(result: ToolResult) -> dict[str, Any] | None:
    """Convert the ``meta`` of a result.

    :raises TypeError: if it is not a mapping.
    """
    if result.meta is None:
        return None
    if not isinstance(result.meta, Mapping):
        raise TypeError(f"the meta of a ToolResult must be a dict, not {type(result.meta).__name__}")
    return dict(to_plain(result.meta))


def is_content_hint(hint: Any) -> bool:
    """Whether a return hint contains content blocks, which have no output schema."""
    if isinstance(hint, type) and issubclass(hint, (ContentBlock, ToolResult)):
        return True
    return any(map(is_content_hint, get_args(hint)))


def _as_block(item: Any) -> ContentBlock:
    block = TextContent(str(item)) if isinstance(item, str) or is_lazy(item) else item
    if not isinstance(block, ContentBlock):
        raise TypeError(f"{type(block).__name__} is not a content block; use TextContent or another one")
    return block


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the text of a content block must be a str, not {type(text).__name__}")
    return text


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
