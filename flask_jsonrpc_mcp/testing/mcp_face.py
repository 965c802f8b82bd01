"""The MCP face: tools, prompts and resources, as a client of any version uses them."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RpcError
from ..mcp.protocol import MODERN, has_structured_content
from ..mcp.spelling import as_text
from ..methods import Method
from .answers import Answers, advise, describe_question
from .eras import Conversation, Era, Legacy, Modern, mirrored_arguments
from .failures import INPUT_REQUIRED, read_failure
from .plain_faces import find_described
from .results import Failure, Reports, Result
from .wire import Message, Reply, Wire

Content = list[dict[str, Any]]
Read = Callable[[Message], tuple[Any, Content]]
"""Takes a result apart: its value, and what a model is shown."""


@dataclass(frozen=True)
class Mcp:
    """``POST /mcp`` in one version."""

    wire: Wire
    version: str
    era: Era

    @classmethod
    def speaking(cls, wire: Wire, version: str, capabilities: Mapping[str, Any]) -> Mcp:
        era: Era = (Modern if version == MODERN else Legacy)(wire, version, capabilities)
        return cls(wire, version, era)

    def call(self, name: str, arguments: Any, answers: Answers, listen: bool) -> Result:
        registry = self.wire.core.registry
        method = registry.get(registry.name_of(name))
        params = {"name": name, "arguments": arguments}

        def read(result: Message) -> tuple[Any, Content]:
            return _tool_value(result, method, self.version), result["content"]

        return self._ask("tools/call", params, read, answers, mirrored_arguments(method, arguments), listen=listen)

    def list_tools(self) -> list[dict[str, Any]]:
        return self.list("tools/list", "tools")

    def describe(self, name: str) -> dict[str, Any]:
        return find_described(self.list_tools(), name)

    def get_prompt(self, name: str, arguments: Any, answers: Answers) -> Result:
        def read(result: Message) -> tuple[Any, Content]:
            return result["messages"], [message["content"] for message in result["messages"]]

        return self._ask("prompts/get", {"name": name, "arguments": arguments}, read, answers)

    def read_resource(self, uri: str, answers: Answers) -> Result:
        def read(result: Message) -> tuple[Any, Content]:
            contents = result["contents"]
            values = [_resource_value(item) for item in contents]
            return values[0] if len(values) == 1 else values, contents

        return self._ask("resources/read", {"uri": uri}, read, answers)

    def complete(self, reference: Message, argument: Message, context: Mapping[str, Any]) -> list[str]:
        params: Message = {"ref": reference, "argument": argument}
        if context:
            params["context"] = {"arguments": dict(context)}
        completed: list[str] = self._ask("completion/complete", params, _whole).value["completion"]["values"]
        return completed

    def list(self, method: str, member: str) -> Content:
        """List everything, page by page."""
        items: Content = []
        params: Message = {}
        while True:
            page = self._ask(method, params, _whole).value
            items += page[member]
            if "nextCursor" not in page:
                return items
            params = {"cursor": page["nextCursor"]}

    def _ask(
        self,
        method: str,
        params: Message,
        read: Read,
        answers: Answers = None,
        mirrored: Mapping[str, str] | None = None,
        *,
        listen: bool = False,
    ) -> Result:
        conversation = Conversation(answers, Reports() if listen else None)
        reply = self.era.ask(method, params, conversation, mirrored or {})
        name = str(params.get("name") or params.get("uri") or method)
        outcome, content = self._outcome(reply, conversation, read)
        return Result(
            name,
            params.get("arguments"),
            f"mcp {self.version}",
            reply.status,
            reply.headers,
            reply.body,
            content,
            conversation.questions,
            conversation.reports,
            outcome,
        )

    def _outcome(self, reply: Reply, conversation: Conversation, read: Read) -> tuple[Any, Content]:
        if conversation.unanswered:
            return _unanswered(conversation), []
        result = reply.body.get("result") if isinstance(reply.body, dict) else None
        if result is None:
            return read_failure(reply, self.wire), []
        if not result.get("isError"):
            return read(result)
        if reply.heard.error is not None:
            return read_failure(reply, self.wire), result["content"]
        text = "\n".join(block.get("text", "") for block in result["content"])
        return Failure(RpcError.code, RpcError.slug, text), result["content"]


def _whole(result: Message) -> tuple[Any, Content]:
    return result, []


def _unanswered(conversation: Conversation) -> Failure:
    asked = ", ".join(describe_question(key, question) for key, question in conversation.unanswered.items())
    advice = "; ".join(advise(conversation.answers, key, asked) for key, asked in conversation.unanswered.items())
    return Failure(RpcError.code, INPUT_REQUIRED, f"It asks for {asked}", advice=advice)


def _tool_value(result: Message, method: Method | None, version: str) -> Any:
    """Find the value in a result: what the other faces have as the result."""
    content = result["content"]
    if "structuredContent" in result:
        structured = result["structuredContent"]
        wrapped = version != MODERN and _is_wrapped(structured, content, method)
        return structured["result"] if wrapped else structured
    if has_structured_content(version) or [block["type"] for block in content] != ["text"]:
        return content
    # Versions before that have the value as text alone.
    text = content[0]["text"]
    if method is not None and method.output is not None and method.output.schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_wrapped(structured: Message, content: Content, method: Method | None) -> bool:
    """Tell a value inside of an object from an object that looks like it."""
    if method is not None and method.output is not None:
        return bool(method.output.schema.get("type") != "object")
    return set(structured) == {"result"} and content[0].get("text") == as_text(structured["result"])


def _resource_value(item: Message) -> Any:
    if "blob" in item:
        return b64decode(item["blob"])
    return json.loads(item["text"]) if item.get("mimeType") == "application/json" else item["text"]
