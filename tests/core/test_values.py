"""The small records that methods return, and get answered: what Python users expect of them."""

from __future__ import annotations

import copy

import pytest

from flask_jsonrpc_mcp import (
    AudioContent,
    Elicited,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    Root,
    Sampled,
    TextContent,
    ToolResult,
)

VALUES = [
    (TextContent("hello"), TextContent("goodbye")),
    (TextContent("hello", annotations={"priority": 1}), TextContent("hello")),
    (ImageContent(b"x"), AudioContent(b"x", "image/png")),
    (ResourceLink("a:b", "b"), ResourceLink("a:b", "c")),
    (EmbeddedResource("a:b", "text"), EmbeddedResource("a:b", b"text")),
    (ToolResult(1, "one"), ToolResult(1)),
    (PromptMessage("hello"), PromptMessage("hello", "assistant")),
    (Elicited("accept", {"name": "Ada"}), Elicited("accept")),
    (Sampled("yes", [], "model"), Sampled("yes", [], "other")),
    (Root("file:///a"), Root("file:///a", "a")),
]


@pytest.mark.parametrize(("value", "other"), VALUES, ids=lambda value: type(value).__name__)
def test_values_are_equal_when_they_are_of_one_class_and_their_members_are(value: object, other: object) -> None:
    assert value == copy.deepcopy(value)
    assert value != other
    assert other != value
    assert value != vars(value)


def test_equal_values_are_one_in_a_set() -> None:
    assert {TextContent("a"), TextContent("a"), TextContent("b")} == {TextContent("a"), TextContent("b")}


def test_a_value_is_shown_as_it_could_be_written() -> None:
    assert repr(Root("file:///a", "a")) == "Root(uri='file:///a', name='a')"
    shown = "PromptMessage(content=TextContent(annotations=None, meta=None, text='hello'), role='user')"
    assert repr(PromptMessage(TextContent("hello"))) == shown
