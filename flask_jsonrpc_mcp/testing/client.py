"""`McpTestClient`: calls the tools of an app from a test, and `assert_tools_valid`: checks all of them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from ..config import PREFIX
from ..doctor import INFO, examine
from ..errors import MethodNotFound, RpcError
from ..http.jsonrpc import DISCOVER
from ..invoke import INPUT_REQUIRED
from ..mcp.protocol import MODERN, VERSIONS
from ..mcp.versions import as_text, has_structured_content
from ..method import Method
from .conversation import Answers, Exchange, Legacy, Modern, header_value
from .results import Failure, Reports, Result, read_failure
from .transport import Message, Reply, Transport, blueprints_of

MCP, JSONRPC, REST = FACES = ("mcp", "jsonrpc", "rest")

ALL_CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

Read = Callable[[Message], tuple[Any, list[Message]]]
"""Splits the result of an MCP request: the value, and the content blocks for the model."""

_BLOCK_TYPES = {"text", "image", "audio", "resource_link", "resource"}


@dataclass(frozen=True, repr=False)
class McpTestClient:
    """Calls an app's tools in this process, by REST, JSON-RPC or MCP.

    ::

        def test_an_editor_can_write(app):
            editor = McpTestClient(app).as_user("editor", "editor")
            assert editor.call("articles.create", {"title": "Hello"}).value["title"] == "Hello"

    Clients never change: ``as_user``, ``with_token``, ``with_headers`` and ``over`` return another one.

    :param app: The app to test.
    :param face: ``"mcp"``, ``"jsonrpc"`` or ``"rest"``.
    :param version: The MCP version to use; older ones are initialised automatically.
    :param blueprint: The name of the blueprint, if the app has several.
    :param headers: Sent with every request.
    :param capabilities: The client capabilities to declare; by default all, ``{}`` for none.
    :param http: A Flask test client to use, with its cookies; otherwise every request has a new one.
    """

    app: Flask
    face: str = MCP
    version: str = MODERN
    blueprint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=lambda: ALL_CAPABILITIES)
    http: FlaskClient | None = None

    def __post_init__(self) -> None:
        if self.face not in FACES:
            raise ValueError(f"face must be one of {', '.join(map(repr, FACES))}, not {self.face!r}")
        if self.version not in VERSIONS:
            raise ValueError(f"version must be one of {', '.join(VERSIONS)}, not {self.version!r}")
        object.__setattr__(self, "blueprint", _choose_blueprint(self.app, self.blueprint))

    def __repr__(self) -> str:
        # Without the headers: pytest shows this in the log of every failing test, and they may have passwords.
        return f"<{type(self).__name__} of {self.app.name!r} on {self._face_and_version}>"

    def as_user(self, username: str, password: str) -> McpTestClient:
        """Sign in with a name and a password, by HTTP Basic."""
        credentials = b64encode(f"{username}:{password}".encode()).decode()
        return self.with_headers({"Authorization": f"Basic {credentials}"})

    def with_token(self, token: str, scheme: str = "Bearer") -> McpTestClient:
        """Sign in with a token."""
        return self.with_headers({"Authorization": f"{scheme} {token}"})

    def with_headers(self, headers: Mapping[str, str]) -> McpTestClient:
        """Send these headers too, with every request."""
        return replace(self, headers={**self.headers, **headers})

    def over(self, face: str, *, version: str = MODERN) -> McpTestClient:
        """Use another face, or another version of MCP."""
        return replace(self, face=face, version=version)

    def call(self, name: str, arguments: Any = None, *, answers: Answers = None, listen: bool = False) -> Result:
        """Call a tool. An error of the call is not raised; it is in the result.

        :param arguments: By name; on JSON-RPC also by position, in a list.
        :param answers: The answers to what the method asks, by the key of each question: the fields of a form,
            ``"decline"`` or ``"cancel"``, the text that a model writes, a list of roots. Or a function that gets the
            key and the question. Versions before 2026-07-28 send no keys; there the answers are used in order.
        :param listen: Request the progress and the log messages of the method, on MCP.
        """
        arguments = {} if arguments is None else arguments
        if self.face == REST:
            reply = self._transport.send("invoke_tool", json={"name": name, "arguments": arguments})
            return self._plain_result(name, arguments, reply, "result")
        if self.face == JSONRPC:
            payload = {"jsonrpc": "2.0", "method": name, "params": arguments, "id": 1}
            return self._plain_result(name, arguments, self._transport.send("jsonrpc", json=payload), "result")
        methods = self._transport.registry.methods
        method = methods.get(methods.name_behind(name))
        exchange = Exchange("tools/call", {"name": name, "arguments": arguments}, answers)
        exchange.reports = Reports() if listen else None
        exchange.mirrored = _mirrored_arguments(method, arguments)
        return self._request(exchange, lambda result: (_tool_value(result, method, self.version), result["content"]))

    def list_tools(self) -> list[dict[str, Any]]:
        """List the tools that this caller may use, all pages, as the face describes them.

        JSON-RPC lists methods, marked as tools or not, as an OpenRPC document has them.

        :raises CallFailed: if this caller may not list them.
        """
        if self.face == MCP:
            return self._list("tools/list", "tools")
        if self.face == JSONRPC:
            methods: list[dict[str, Any]] = self.call(DISCOVER).value["methods"]
            return methods
        tools: list[dict[str, Any]] = []
        query: dict[str, str] = {}
        while True:
            reply = self._transport.send("list_tools", query=query)
            tools += self._plain_result("list", query, reply, "tools").value
            if reply.body["nextCursor"] is None:
                return tools
            query = {"cursor": reply.body["nextCursor"]}

    def describe(self, name: str) -> dict[str, Any]:
        """Describe one tool.

        :raises AssertionError: if it does not exist, or this caller may not use it.
        """
        if self.face == REST:
            reply = self._transport.send("describe_tool", query={"name": name})
            tool: dict[str, Any] = self._plain_result(name, None, reply, "tool").value
            return tool
        tools = self.list_tools()
        found = next((tool for tool in tools if tool["name"] == name), None)
        if found is None:
            names = ", ".join(tool["name"] for tool in tools) or "none"
            raise AssertionError(f"{MethodNotFound(name).message}; this caller sees {names}")
        return found

    def list_prompts(self) -> list[dict[str, Any]]:
        """List the prompts that this caller may use, all pages."""
        return self._list("prompts/list", "prompts")

    def get_prompt(self, name: str, arguments: Any = None, *, answers: Answers = None) -> Result:
        """Get a prompt: the value is its messages, the text is their text."""
        params = {"name": name, "arguments": {} if arguments is None else arguments}

        def read(result: Message) -> tuple[Any, list[Message]]:
            return result["messages"], [message["content"] for message in result["messages"]]

        return self._request(Exchange("prompts/get", params, answers), read)

    def list_resources(self) -> list[dict[str, Any]]:
        """List the resources that this caller may read, all pages."""
        return self._list("resources/list", "resources")

    def list_resource_templates(self) -> list[dict[str, Any]]:
        """List the resource templates that this caller may read, all pages."""
        return self._list("resources/templates/list", "resourceTemplates")

    def read_resource(self, uri: str, *, answers: Answers = None) -> Result:
        """Read a resource: the value is its text, its bytes, or its parsed JSON."""

        def read(result: Message) -> tuple[Any, list[Message]]:
            values = [_resource_value(item) for item in result["contents"]]
            return values[0] if len(values) == 1 else values, result["contents"]

        return self._request(Exchange("resources/read", {"uri": uri}, answers), read)

    def complete(
        self, reference: str, argument: str, value: str = "", *, context: Mapping[str, str] | None = None
    ) -> list[str]:
        """Complete an argument of a prompt, or a variable of a resource template.

        :param reference: The name of the prompt, or the URI template of the resource.
        :param argument: The name of the argument or variable.
        :param value: What is typed so far.
        :param context: The other arguments, if they are known.
        :raises CallFailed: if there is nothing to complete.
        """
        # No name has a colon, and every URI has one.
        kind, member = ("ref/resource", "uri") if ":" in reference else ("ref/prompt", "name")
        params: Message = {"ref": {"type": kind, member: reference}, "argument": {"name": argument, "value": value}}
        if context:
            params["context"] = {"arguments": dict(context)}
        completion: dict[str, list[str]] = self._request(Exchange("completion/complete", params)).value["completion"]
        return completion["values"]

    @cached_property
    def _transport(self) -> Transport:
        return Transport(self.app, self.blueprint, self.headers, self.http)

    @cached_property
    def _mcp(self) -> Modern | Legacy:
        # Kept, because a session is initialised once.
        return (Modern if self.version == MODERN else Legacy)(self._transport, self.version, self.capabilities)

    @property
    def _face_and_version(self) -> str:
        return f"{self.face} {self.version}" if self.face == MCP else self.face

    def _list(self, method: str, member: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        params: Message = {}
        while True:
            page = self._request(Exchange(method, params)).value
            items += page[member]
            if "nextCursor" not in page:
                return items
            params = {"cursor": page["nextCursor"]}

    def _request(self, exchange: Exchange, read: Read = lambda result: (result, [])) -> Result:
        if self.face != MCP:
            raise ValueError(f"only MCP has prompts and resources; this client uses {self.face!r}")
        reply = self._mcp.request(exchange)
        outcome, content = self._read_outcome(reply, exchange, read)
        return self._result(
            exchange.name,
            exchange.params.get("arguments"),
            reply,
            outcome,
            content=content,
            questions=exchange.questions,
            reports=exchange.reports,
        )

    def _read_outcome(self, reply: Reply, exchange: Exchange, read: Read) -> tuple[Any, list[Message]]:
        if exchange.unanswered:
            message, advice = exchange.explain_unanswered()
            return Failure(RpcError.code, INPUT_REQUIRED, message, advice=advice), []
        result = reply.body.get("result") if isinstance(reply.body, dict) else None
        if result is None:
            return read_failure(reply, self._transport.registry), []
        if not result.get("isError"):
            return read(result)
        if reply.observed.error is not None:
            return read_failure(reply, self._transport.registry), result["content"]
        text = "\n".join(block.get("text", "") for block in result["content"])
        return Failure(RpcError.code, RpcError.slug, text), result["content"]

    def _plain_result(self, name: str, arguments: Any, reply: Reply, member: str) -> Result:
        """Read a response of REST or JSON-RPC, which have no content blocks, unless a method returns some."""
        if not isinstance(reply.body, dict) or member not in reply.body:
            return self._result(name, arguments, reply, read_failure(reply, self._transport.registry))
        value = reply.body[member]
        is_content = isinstance(value, list) and value and all(_is_block(item) for item in value)
        content = value if is_content else [{"type": "text", "text": as_text(value)}]
        return self._result(name, arguments, reply, value, content=content)

    def _result(self, name: str, arguments: Any, reply: Reply, outcome: Any, **more: Any) -> Result:
        face, status, headers = self._face_and_version, reply.status, reply.headers
        return Result(name, arguments, face, status, headers, reply.body, outcome=outcome, **more)


def assert_tools_valid(app: Flask, ignore: Iterable[str] = (), *, tools_only: bool = True) -> None:
    """Assert that ``flask mcp doctor`` finds no errors and no warnings in the tools of an app.

    :param ignore: Findings that are intended: slugs such as ``"name-dots"``, or ``"name-dots:articles.get"`` for one
        tool. Those in ``JSONRPC_MCP_DOCTOR_IGNORE`` are ignored too.
    :param tools_only: With ``False``, check the settings of the app too. Those of tests are seldom those of a
        deployment, so the command is the better place for that.
    :raises AssertionError: with all findings, why they matter and what to do.
    :raises ValueError: for a slug that does not exist.
    """
    __tracebackhide__ = True
    ignored = [*app.config.get(PREFIX + "DOCTOR_IGNORE", ()), *ignore]
    findings = [found for found in examine(app, ignore=ignored, tools_only=tools_only) if found.severity != INFO]
    if not findings:
        return
    tools: dict[tuple[str, str, str, str], list[str]] = {}
    for found in findings:
        names = tools.setdefault((found.severity, found.slug, found.why, found.fix), [])
        names.extend([] if found.tool is None else [found.tool])
    lines = [f"flask mcp doctor finds problems in {app.name!r}"]
    for (severity, slug, why, fix), names in tools.items():
        lines += ["", f"{severity} {slug}{': ' if names else ''}{', '.join(names)}", f"  {why}", f"  fix: {fix}"]
    slugs = list(dict.fromkeys(found.slug for found in findings))
    lines += ["", f"to ignore what is intended: assert_tools_valid(app, ignore={slugs})"]
    raise AssertionError("\n".join(lines))


def _choose_blueprint(app: Flask, name: str) -> str:
    names = list(blueprints_of(app))
    if not names:
        raise ValueError(f"the app {app.name!r} has no McpBlueprint; register one with app.register_blueprint")
    if name in names or (not name and len(names) == 1):
        return name or names[0]
    if name:
        raise ValueError(f"the app {app.name!r} has no McpBlueprint {name!r}; it has {', '.join(map(repr, names))}")
    raise ValueError(f"the app {app.name!r} has several McpBlueprints; pass blueprint={' or '.join(map(repr, names))}")


def _mirrored_arguments(method: Method | None, arguments: Any) -> dict[str, str]:
    """Build the ``Mcp-Param-`` headers, which repeat arguments for proxies."""
    if method is None:
        return {}
    values = {argument.header: argument.value_in(arguments) for argument in method.params.mirrored}
    return {header: header_value(value) for header, value in values.items() if value is not None}


def _tool_value(result: Message, method: Method | None, version: str) -> Any:
    """Read the value out of a ``tools/call`` result: what REST and JSON-RPC have as the result."""
    content = result["content"]
    if "structuredContent" in result:
        structured = result["structuredContent"]
        wrapped = version != MODERN and _is_wrapped(structured, content, method)
        return structured["result"] if wrapped else structured
    if has_structured_content(version) or [block["type"] for block in content] != ["text"]:
        return content
    # Older versions have the value as text only.
    text = content[0]["text"]
    if method is not None and method.output is not None and method.output.schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_wrapped(structured: Message, content: list[Message], method: Method | None) -> bool:
    """Check whether a legacy result is ``{"result": value}``, because only objects may be sent, or an object."""
    if method is not None and method.output is not None:
        return bool(method.output.schema.get("type") != "object")
    return set(structured) == {"result"} and content[0].get("text") == as_text(structured["result"])


def _resource_value(item: Message) -> Any:
    if "blob" in item:
        return b64decode(item["blob"])
    return json.loads(item["text"]) if item.get("mimeType") == "application/json" else item["text"]


def _is_block(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in _BLOCK_TYPES
