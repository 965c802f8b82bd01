"""`McpTestClient`: calls the tools of an app from a test, and `assert_tools_valid`: checks all of them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Flask
from flask.testing import FlaskClient

from ..config import PREFIX
from ..doctor import INFO, by_problem, examine
from ..errors import MethodNotFound
from ..http.jsonrpc import DISCOVER
from ..lookup import find_registry
from ..mcp.protocol import MODERN, VERSIONS
from ..mcp.versions import as_text, has_structured_content
from ..method import Method
from ..task_options import TASKS_EXTENSION
from .conversation import Answers, Conversation, Exchange, header_value
from .results import Message, Read, Reply, Result, read_failure

if TYPE_CHECKING:
    from .started_tasks import StartedTask

MCP, JSONRPC, REST = FACES = ("mcp", "jsonrpc", "rest")

ALL_CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

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
    :param http: A Flask test client to use, with its cookies, as a page of the app; otherwise every request has a new
        one.
    """

    app: Flask
    face: str = MCP
    version: str = MODERN
    blueprint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=lambda: ALL_CAPABILITIES)
    http: FlaskClient | None = None

    def __post_init__(self) -> None:
        if self.face not in FACES:
            raise ValueError(f"face must be one of {', '.join(map(repr, FACES))}, not {self.face!r}")
        if self.version not in VERSIONS:
            raise ValueError(f"version must be one of {', '.join(VERSIONS)}, not {self.version!r}")
        _, registry = find_registry(self.app, self.blueprint)  # raises LookupError
        if TASKS_EXTENSION in registry.extensions:
            _tasks().prepare(self.app)

    def __repr__(self) -> str:
        # Without the headers: pytest shows this in the log of every failing test, and they may have passwords.
        return f"<{type(self).__name__} of {self.app.name!r} on {self._face_and_version}>"

    def as_user(self, username: str, password: str) -> McpTestClient:
        """Sign in with a name and a password, by HTTP Basic."""
        return self.with_token(b64encode(f"{username}:{password}".encode()).decode(), "Basic")

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
        return self._result(*self._send_call(name, arguments, answers, listen=listen))

    def _send_call(
        self, name: str, arguments: Any, answers: Answers, *, listen: bool = False
    ) -> tuple[Exchange, Reply, Read]:
        arguments = {} if arguments is None else arguments
        exchange = Exchange("tools/call", {"name": name, "arguments": arguments}, answers, listen)
        if self.face == REST:
            return exchange, self._conversation.send("invoke_tool", json=exchange.params), _read_plain
        if self.face == JSONRPC:
            payload = {"jsonrpc": "2.0", "method": name, "params": arguments, "id": 1}
            return exchange, self._conversation.send("jsonrpc", json=payload), _read_plain
        methods = self._conversation.registry.methods
        method = methods.get(methods.name_behind(name))
        if method is not None:
            exchange.headers = _mirrored_arguments(method, arguments)
        reply = self._conversation.request(exchange)
        return exchange, reply, lambda result: (_tool_value(result, method, self.version), result["content"])

    def start(self, name: str, arguments: Any = None, *, answers: Answers = None) -> StartedTask:
        """Call a tool with ``task=`` as a client that supports tasks, and return the task; see :meth:`run_tasks`.

        :param answers: The answers to what the method asks before it becomes a task.
        :raises CallFailed: if the call failed, so that there is no task.
        :raises AssertionError: if it returned a result.
        """
        __tracebackhide__ = True
        able = {**self.capabilities, "extensions": {**self.capabilities.get("extensions", {}), TASKS_EXTENSION: {}}}
        client = replace(self.with_headers({"Prefer": "respond-async"}), capabilities=able)
        exchange, reply, read = client._send_call(name, arguments, answers)
        task_id = _task_id(reply, self.face)
        if task_id is None:
            value = client._result(exchange, reply, read).value
            raise AssertionError(f"{name} did not become a task, but returned {value!r}; was it registered with task=?")
        asked = (name, exchange.params["arguments"], self._face_and_version)
        return _tasks().StartedTask(task_id, *asked, client._conversation, read)  # type: ignore[no-any-return]

    def run_tasks(self) -> int:
        """Run the tasks that wait for a worker, in this thread, and return how many runs that were.

        A test needs no worker: once an app has a test client, its own threads run no tasks. Unless
        ``JSONRPC_MCP_TASKS_DATABASE`` is set, the tasks are in a file of their own, which is removed with the app. So
        create the first client before a task is started in any other way.
        """
        ran: int = _tasks().run_queued(self.app)
        return ran

    def list_tools(self) -> list[dict[str, Any]]:
        """List the tools that this caller may use, all pages, as the face describes them.

        JSON-RPC lists methods, marked as tools or not, as an OpenRPC document has them.

        :raises CallFailed: if this caller may not list them.
        """
        if self.face == JSONRPC:
            methods: list[dict[str, Any]] = self.call(DISCOVER).value["methods"]
            return methods
        if self.face == REST:
            return _all_pages("tools", lambda cursor: self._get("list_tools", cursor))
        return self._list("tools/list", "tools")

    def describe(self, name: str) -> dict[str, Any]:
        """Describe one tool.

        :raises AssertionError: if it does not exist, or this caller may not use it.
        """
        if self.face == REST:
            tool: dict[str, Any] = self._get("describe_tool", {"name": name})["tool"]
            return tool
        tools = {tool["name"]: tool for tool in self.list_tools()}
        if name not in tools:
            raise AssertionError(f"{MethodNotFound(name).message}; this caller sees {', '.join(tools) or 'none'}")
        return tools[name]

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
    def _conversation(self) -> Conversation:
        # Kept, because a session is initialised once.
        found = find_registry(self.app, self.blueprint)
        return Conversation(self.app, *found, self.headers, self.http, self.version, self.capabilities)

    @property
    def _face_and_version(self) -> str:
        return f"{self.face} {self.version}" if self.face == MCP else self.face

    def _list(self, method: str, member: str) -> list[dict[str, Any]]:
        return _all_pages(member, lambda cursor: self._request(Exchange(method, cursor)).value)

    def _get(self, endpoint: str, query: Message) -> Any:
        """GET a route of REST.

        :raises CallFailed: if the response is an error.
        """
        reply = self._conversation.send(endpoint, query=query)
        is_page = reply.status == 200 and isinstance(reply.body, dict)
        return reply.body if is_page else self._result(Exchange(endpoint, query), reply, _read_plain).value

    def _request(self, exchange: Exchange, read: Read = lambda result: (result, [])) -> Result:
        if self.face != MCP:
            raise ValueError(f"only MCP has prompts and resources; this client uses {self.face!r}")
        return self._result(exchange, self._conversation.request(exchange), read)

    def _result(self, exchange: Exchange, reply: Reply, read: Read) -> Result:
        is_mcp = self.face == MCP
        body: Message = reply.body if isinstance(reply.body, dict) else {}
        outcome: Any = None
        content: list[Message] = []
        if exchange.unanswered:
            outcome = exchange.failure()
        elif "result" not in body or reply.status == HTTPStatus.ACCEPTED:  # a task is no result
            outcome = read_failure(reply, self._conversation.registry)
        elif is_mcp and body["result"].get("isError"):
            outcome, content = read_failure(reply, self._conversation.registry), body["result"]["content"]
        else:
            outcome, content = read(body["result"])
        name = str(exchange.method if exchange.target is None else exchange.target)
        arguments, face = exchange.params.get("arguments"), self._face_and_version
        reports = exchange.notifications if is_mcp and exchange.listen else None
        response = (reply.status, reply.headers, reply.body)
        return Result(name, arguments, face, *response, outcome, content, exchange.questions, reports)


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
    lines = [f"flask mcp doctor finds problems in {app.name!r}"]
    for alike in by_problem(findings):
        found, names = alike[0], ", ".join(each.tool for each in alike if each.tool is not None)
        heading = f"{found.severity} {found.slug}"
        lines += ["", f"{heading}: {names}" if names else heading, f"  {found.why}", f"  fix: {found.fix}"]
    slugs = list(dict.fromkeys(found.slug for found in findings))
    lines += ["", f"to ignore what is intended: assert_tools_valid(app, ignore={slugs})"]
    raise AssertionError("\n".join(lines))


def _tasks() -> Any:
    from . import started_tasks  # SQLAlchemy is an extra

    return started_tasks


def _task_id(reply: Reply, face: str) -> str | None:
    """Return the id of the task in a response; ``None`` if it is a result or an error."""
    if face != MCP and reply.status != 202:
        return None
    handle = reply.body if face == REST else reply.body.get("result", {})
    found: str | None = handle.get("taskId") if face == MCP else handle["task"]["id"]
    return found


def _all_pages(member: str, get: Callable[[Message], Message]) -> list[Message]:
    items: list[Message] = []
    cursor: Message = {}
    while True:
        page = get(cursor)
        items += page[member]
        if page.get("nextCursor") is None:
            return items
        cursor = {"cursor": page["nextCursor"]}


def _mirrored_arguments(method: Method, arguments: Any) -> dict[str, str]:
    """Build the ``Mcp-Param-`` headers, which repeat arguments for proxies."""
    values = {argument.header: argument.value_in(arguments) for argument in method.params.mirrored}
    return {header: header_value(value) for header, value in values.items() if value is not None}


def _tool_value(result: Message, method: Method | None, version: str) -> Any:
    """Read the value out of a ``tools/call`` result: what REST and JSON-RPC have as the result."""
    content = result["content"]
    schema = None if method is None or method.output is None else method.output.schema
    if "structuredContent" in result:
        structured = result["structuredContent"]
        if version == MODERN:
            return structured
        # Older versions have only objects: any other value was sent as {"result": value}.
        if schema is not None:
            is_wrapped = schema.get("type") != "object"
        else:
            is_wrapped = set(structured) == {"result"} and content[0].get("text") == as_text(structured["result"])
        return structured["result"] if is_wrapped else structured
    if has_structured_content(version) or [block["type"] for block in content] != ["text"]:
        return content
    # Even older versions have the value as text only.
    text = content[0]["text"]
    if schema is not None and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _resource_value(item: Message) -> Any:
    if "blob" in item:
        return b64decode(item["blob"])
    return json.loads(item["text"]) if item.get("mimeType") == "application/json" else item["text"]


def _read_plain(value: Any) -> tuple[Any, list[Message]]:
    """Split a result of REST or JSON-RPC, which have no content blocks, unless a method returns some."""
    blocks = value if isinstance(value, list) else []
    if blocks and all(isinstance(block, dict) and block.get("type") in _BLOCK_TYPES for block in blocks):
        return value, blocks
    return value, [{"type": "text", "text": as_text(value)}]
