"""Spans and durations, compared whole with OpenTelemetry's semantic conventions for MCP.

https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Annotated, Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from sqlalchemy import create_engine, text

from flask_jsonrpc_mcp import McpBlueprint, RpcError, Secret, current_call
from flask_jsonrpc_mcp.cli.app_server import AppServer
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from flask_jsonrpc_mcp.telemetry.audit import AuditLog
from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry
from tests.conftest import Site, asking, basic, make_auth
from tests.support import faces
from tests.support.answering import Respondent
from tests.support.mcp_messages import LegacyClient, ModernClient, client_of, events, modern_meta
from tests.support.servers import ROOT, gunicorn
from tests.support.stdio_client import Connection
from tests.telemetry.spans import Recorder

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
HTTP = {"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1"}
PIPE = {"network.transport": "pipe"}
HERE = {"client.address": "127.0.0.1"}


def make_site(recorder: Recorder, **options: Any) -> Site:
    """A site with a method of each kind."""
    site = Site(McpBlueprint(telemetry=[recorder.telemetry], **options), SECRET_KEY="a key")

    @site.rpc.tool("add")
    def add(a: int, b: int) -> int:
        return a + b

    @site.rpc.tool("refuse")
    def refuse() -> None:
        raise RpcError("Article 7 does not exist")

    @site.rpc.tool("crash")
    def crash(password: Annotated[str, Secret] = "") -> None:
        raise LookupError(f"no {password}")

    @site.rpc.tool("count")
    def count() -> Iterator[str]:
        yield from ("one", "two")

    @site.rpc.tool("greet")
    def greet() -> str:
        name = current_call.elicit("Your name?", {"name": str})
        return f"Hello {name.content['name']}"

    @site.rpc.prompt("summary")
    def summary(style: str = "short") -> str:
        return style

    @site.rpc.resource("notes://{id}")
    def note(id: int) -> str:
        return f"note {id}"

    return site


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def site(recorder: Recorder) -> Site:
    return make_site(recorder)


def server_span(method: str, target: str = "", version: str = MODERN, **more: Any) -> dict[str, Any]:
    """The SERVER span of a request over HTTP; with ``tools/call``, of a tool."""
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": target} if method == "tools/call" else {}
    facts = {"mcp.method.name": method, "mcp.protocol.version": version, "jsonrpc.request.id": "1"}
    attributes = {**facts, **tool, **HTTP, **HERE, **more.pop("attributes", {})}
    return {
        "name": f"{method} {target}".rstrip(),
        "kind": "SERVER",
        "parent": None,
        "attributes": attributes,
        **more,
    }


def session_of(client: Any) -> dict[str, str]:
    """The attribute of a session: a digest, because only its owner should have the id."""
    session = getattr(client, "session", None)
    return {} if session is None else {"mcp.session.id": hashlib.sha256(session.encode()).hexdigest()[:32]}


def run_span(tool: str, face: str, parent: str | None, **more: Any) -> dict[str, Any]:
    """The INTERNAL span of a run of a tool."""
    attributes = {
        "code.function.name": f"tests.telemetry.test_tracing.make_site.<locals>.{tool}",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "jsonrpc_mcp.face": face,
        **HERE,
        **more.pop("attributes", {}),
    }
    return {"name": f"execute_tool {tool}", "kind": "INTERNAL", "parent": parent, "attributes": attributes, **more}


@pytest.mark.parametrize(("face", "make"), [("rest", faces.rest), ("jsonrpc", faces.jsonrpc), ("jsonrpc", faces.batch)])
def test_a_call_without_mcp_is_the_span_of_its_method(
    site: Site, recorder: Recorder, face: str, make: faces.Face
) -> None:
    assert make("add", {"a": 1, "b": 2}).send(site.client).status_code == 200
    assert recorder.take() == [run_span("add", face, None)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_call_of_every_version_is_a_span_with_the_method_in_it(
    site: Site, recorder: Recorder, version: str
) -> None:
    client = client_of(version, site.client)
    if isinstance(client, LegacyClient):
        client.initialize()
        assert recorder.take() == [server_span("initialize", version=version)]
    assert client.call("add", {"a": 1, "b": 2}).status_code == 200
    assert recorder.take() == [
        server_span("tools/call", "add", version, attributes=session_of(client)),
        run_span("add", "mcp", "tools/call add"),
    ]


def test_a_request_of_2026_07_28_has_no_session_whatever_its_headers_say(site: Site, recorder: Recorder) -> None:
    ModernClient(site.client).call("add", {"a": 1, "b": 2}, Mcp_Session_Id="made up")
    assert recorder.take()[0] == server_span("tools/call", "add")


def test_other_requests_are_spans_too(site: Site, recorder: Recorder) -> None:
    client = ModernClient(site.client)
    client.list()
    client.post("prompts/get", {"name": "summary"})
    client.post("resources/read", {"uri": "notes://7"})
    function = "tests.telemetry.test_tracing.make_site.<locals>."
    run = {"kind": "INTERNAL", "parent": "prompts/get summary"}
    attributes = {"jsonrpc_mcp.face": "mcp", **HERE}
    assert recorder.take() == [
        server_span("tools/list"),
        server_span("prompts/get", "summary", attributes={"gen_ai.prompt.name": "summary"}),
        {"name": "prompt summary", **run, "attributes": {"code.function.name": f"{function}summary", **attributes}},
        server_span("resources/read", attributes={"mcp.resource.uri": "notes://7"}),
        {
            "name": "resource notes://{id}",
            **run,
            "parent": "resources/read",
            "attributes": {"code.function.name": f"{function}note", **attributes},
        },
    ]


def test_a_notification_is_a_span_without_the_id_of_a_request(site: Site, recorder: Recorder) -> None:
    client = LegacyClient(site.client)
    client.initialize()
    recorder.take()
    client.send(asking("notifications/initialized", id=...))
    notification = server_span("notifications/initialized", version=LEGACY[0], attributes=session_of(client))
    del notification["attributes"]["jsonrpc.request.id"]
    assert recorder.take() == [notification]


def test_an_expected_failure_of_a_tool_is_a_tool_error_without_its_text(site: Site, recorder: Recorder) -> None:
    """The text may have been made of arguments."""
    ModernClient(site.client).call("refuse")
    status = ("ERROR", None)
    assert recorder.take() == [
        server_span("tools/call", "refuse", attributes={"error.type": "tool_error"}, status=status),
        run_span("refuse", "mcp", "tools/call refuse", attributes={"error.type": "execution_error"}, status=status),
    ]


def test_a_tool_that_fails_names_its_exception_and_not_its_text(site: Site, recorder: Recorder) -> None:
    ModernClient(site.client).call("crash", {"password": "hunter2"})
    status = ("ERROR", None)
    assert recorder.take() == [
        server_span("tools/call", "crash", attributes={"error.type": "tool_error"}, status=status),
        run_span("crash", "mcp", "tools/call crash", attributes={"error.type": "LookupError"}, status=status),
    ]


def test_an_error_of_a_prompt_or_resource_is_a_code_without_its_text(site: Site, recorder: Recorder) -> None:
    """The text may have been made of arguments."""

    @site.rpc.prompt("login")
    def login(password: str) -> str:
        raise RpcError(f"wrong password {password}")

    @site.rpc.resource("keys://{key}")
    def key_of(key: str) -> str:
        raise RpcError("no such key", code=-32050)

    client = ModernClient(site.client)
    client.post("prompts/get", {"name": "login", "arguments": {"password": "hunter2"}})
    client.post("resources/read", {"uri": "keys://hunter2"})
    requests = [span for span in recorder.take() if span["kind"] == "SERVER"]
    assert [(span["attributes"]["error.type"], span["status"]) for span in requests] == [
        ("-32000", ("ERROR", None)),
        ("-32050", ("ERROR", None)),
    ]


def test_a_json_rpc_error_is_the_status_of_its_span(site: Site, recorder: Recorder) -> None:
    client = ModernClient(site.client)
    client.call("no such tool")
    client.post("no/such/method")
    client.call("add", {"a": 1, "b": 2}, Mcp_Name="other")
    codes = [{"error.type": code, "rpc.response.status_code": code} for code in ("-32602", "-32601", "-32020")]
    unknown = server_span("tools/call", attributes={**codes[0]}, status=("ERROR", None))
    unknown["attributes"] |= {"gen_ai.tool.name": "no such tool", "gen_ai.operation.name": "execute_tool"}
    assert recorder.take() == [
        unknown,
        server_span("_OTHER", attributes=codes[1], status=("ERROR", None)),
        server_span("tools/call", "add", attributes=codes[2], status=("ERROR", None)),
    ]


def test_invalid_arguments_run_no_method(site: Site, recorder: Recorder) -> None:
    ModernClient(site.client).call("add", {"a": "x"})
    failed: Any = {"attributes": {"error.type": "tool_error"}, "status": ("ERROR", None)}
    assert recorder.take() == [server_span("tools/call", "add", **failed)]
    faces.rest("add", {"a": "x"}).send(site.client)
    assert recorder.take() == []


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_streamed_call_is_no_error(site: Site, recorder: Recorder, version: str) -> None:
    recorder.instrument(site.app)
    params = {"name": "count", "arguments": {}, "_meta": {"progressToken": "p"}}
    client = client_of(version, site.client)
    if isinstance(client, LegacyClient):
        client.initialize()
        recorder.take()
    sent = events(client.post("tools/call", params))
    assert [message.get("method", "result") for message in sent] == [*["notifications/progress"] * 2, "result"]
    http, *spans = recorder.take()
    assert (http["name"], http["kind"], "status" in http) == ("POST /mcp", "SERVER", False)
    assert spans == [
        server_span("tools/call", "count", version, parent="POST /mcp", attributes=session_of(client)),
        run_span("count", "mcp", "tools/call count"),
    ]


def test_a_question_of_2026_07_28_ends_one_request_and_the_answer_is_the_next(recorder: Recorder) -> None:
    site = make_site(recorder)
    client = ModernClient(site.client, capabilities={"elicitation": {}})
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert Respondent(client, [answer]).call("greet") == "Hello Ada"
    asked = {"jsonrpc_mcp.outcome": "input_required"}
    request = server_span("tools/call", "greet")
    assert recorder.take() == [
        request,
        run_span("greet", "mcp", "tools/call greet", attributes=asked),
        request,
        run_span("greet", "mcp", "tools/call greet"),
    ]
    assert [point.count for point in recorder.points("mcp.server.operation.duration")] == [2]


def test_a_question_before_2026_07_28_is_a_client_span_in_the_one_span_of_its_request(recorder: Recorder) -> None:
    site = make_site(recorder)
    client = LegacyClient(site.client, capabilities={"elicitation": {}})
    answer = {"action": "accept", "content": {"name": "Ada"}}
    assert Respondent(client, [answer]).call("greet") == "Hello Ada"
    asked = {"jsonrpc_mcp.outcome": "input_required"}
    initialize, *spans = recorder.take()
    assert initialize["name"] == "initialize"
    assert spans == [
        server_span("tools/call", "greet", LEGACY[0], attributes=session_of(client)),
        run_span("greet", "mcp", "tools/call greet", attributes=asked),
        {
            "name": "elicitation/create",
            "kind": "CLIENT",
            "parent": "tools/call greet",
            "attributes": {"mcp.method.name": "elicitation/create"},
        },
        run_span("greet", "mcp", "tools/call greet"),
    ]


def test_a_question_that_a_client_cannot_answer_is_an_error_of_its_span(recorder: Recorder) -> None:
    site = make_site(recorder)
    client = LegacyClient(site.client, capabilities={"elicitation": {}})
    failure = {"error": {"code": -32603, "message": "No window"}}
    Respondent(client, [failure]).call("greet")
    [asked] = [span for span in recorder.take() if span["kind"] == "CLIENT"]
    assert asked["status"] == ("ERROR", None)
    assert asked["attributes"] == {
        "mcp.method.name": "elicitation/create",
        "error.type": asked["attributes"]["rpc.response.status_code"],
        "rpc.response.status_code": asked["attributes"]["rpc.response.status_code"],
    }


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_requests_on_stdio_are_spans(site: Site, recorder: Recorder, version: str) -> None:
    connection = Connection(AppServer(site.app, user=None, blueprint=None))
    params: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}
    if version == MODERN:
        params["_meta"] = modern_meta()
    else:
        connection.initialize(version)
    connection.send(asking("tools/call", params))
    connection.rest()
    *others, request, run = recorder.take()
    expected = server_span("tools/call", "add", version)
    expected["attributes"] = {k: v for k, v in expected["attributes"].items() if k not in (*HTTP, *HERE)} | PIPE
    assert request == expected
    assert (run["name"], run["parent"]) == ("execute_tool add", "tools/call add")
    assert [span["name"] for span in others] == ([] if version == MODERN else ["initialize"])
    connection.close()
    connection.server.close()
    points = recorder.points("mcp.server.session.duration")
    assert [dict(point.attributes) for point in points] == (
        [] if version == MODERN else [{"mcp.protocol.version": version, **PIPE}]
    )


def test_the_span_of_the_client_is_the_parent_and_the_http_span_is_linked(site: Site, recorder: Recorder) -> None:
    recorder.instrument(site.app)
    seen: dict[str, Any] = {}

    @site.rpc.tool("look")
    def look() -> None:
        seen["trace"] = f"{trace.get_current_span().get_span_context().trace_id:032x}"
        seen["state"] = trace.get_current_span().get_span_context().trace_state.get("vendor")
        seen["baggage"] = dict(baggage.get_all())

    meta = {**modern_meta(), "traceparent": TRACEPARENT, "tracestate": "vendor=1", "baggage": "user=ada"}
    ModernClient(site.client).post("tools/call", {"name": "look", "arguments": {}, "_meta": meta})
    assert seen == {"trace": TRACE, "state": "1", "baggage": {"user": "ada"}}
    http, request, run = recorder.take()
    assert (http["name"], http["parent"]) == ("POST /mcp", None)
    assert (request["parent"], request["links"]) == (PARENT, ["POST /mcp"])
    assert run["parent"] == "tools/call look"


def test_with_baggage_alone_the_http_span_is_the_parent_and_not_linked_too(site: Site, recorder: Recorder) -> None:
    recorder.instrument(site.app)
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {**modern_meta(), "baggage": "user=ada"}}
    ModernClient(site.client).post("tools/call", params)
    _, request, _ = recorder.take()
    assert request == server_span("tools/call", "add", parent="POST /mcp")


@pytest.mark.parametrize("traceparent", ["", "00-zz-zz-00", "x" * 100_000, 7, None, ["a"]])
def test_a_traceparent_that_is_none_is_ignored(site: Site, recorder: Recorder, traceparent: Any) -> None:
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {**modern_meta(), "traceparent": traceparent}}
    assert ModernClient(site.client).post("tools/call", params).status_code == 200
    assert recorder.take()[0]["parent"] is None


@pytest.mark.parametrize(
    "sent",
    [
        {"traceparent": TRACEPARENT, "tracestate": "x\nINFO a forged line"},
        {"baggage": "x\nINFO a forged line" + "x" * 8192},
        {"baggage": "x" * 100_000},
    ],
)
def test_what_could_be_no_http_header_is_not_read_and_not_logged(
    site: Site, caplog: pytest.LogCaptureFixture, sent: dict[str, str]
) -> None:
    """OpenTelemetry logs what it cannot parse as it is."""
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {**modern_meta(), **sent}}
    assert ModernClient(site.client).post("tools/call", params).status_code == 200
    assert [record.name for record in caplog.records if record.name.startswith("opentelemetry")] == []


def test_a_method_without_a_request_around_it_belongs_to_the_span_of_the_client(recorder: Recorder) -> None:
    """As in a worker that runs a task: only the call is there, with the ``_meta`` of its request."""
    site = make_site(recorder)
    seen = []

    @site.rpc.around
    def look(call: Any) -> Iterator[None]:
        seen.append(call)
        yield

    meta = {**modern_meta(), "traceparent": TRACEPARENT}
    ModernClient(site.client).post("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta})
    recorder.take()
    hook = site.rpc._registry.around[0]
    with site.app.app_context(), hook(seen[0]):
        pass
    [run] = recorder.take()
    assert run["parent"] == PARENT


def test_flask_and_sqlalchemy_nest_around_and_inside(recorder: Recorder) -> None:
    engine = create_engine("sqlite://")
    site = Site(McpBlueprint(telemetry=[recorder.telemetry]))
    instruments: list[Any] = [SQLAlchemyInstrumentor()]
    instruments[0].instrument(engine=engine, tracer_provider=recorder.tracers, skip_dep_check=True)
    recorder.instrument(site.app)

    @site.rpc.tool("query", timeout=30)
    def query() -> int:
        with engine.connect() as connection:
            return int(connection.execute(text("SELECT 7")).scalar_one())

    try:
        ModernClient(site.client).call("query")
        faces.rest("query", {}).send(site.client)
    finally:
        instruments[0].uninstrument()
        engine.dispose()
    assert [(span["name"], span["parent"]) for span in recorder.take() if span["name"] != "connect"] == [
        ("POST /mcp", None),
        ("tools/call query", "POST /mcp"),
        ("execute_tool query", "tools/call query"),
        ("SELECT", "execute_tool query"),
        ("POST /mcp/tools/invoke", None),
        ("execute_tool query", "POST /mcp/tools/invoke"),
        ("SELECT", "execute_tool query"),
    ]


def test_the_duration_of_requests_is_a_histogram_with_the_buckets_of_the_conventions(
    site: Site, recorder: Recorder
) -> None:
    client = ModernClient(site.client)
    for _ in range(3):
        client.call("add", {"a": 1, "b": 2})
    client.call("invented-1")
    client.call("invented-2")
    common = {"mcp.method.name": "tools/call", "mcp.protocol.version": MODERN, "gen_ai.operation.name": "execute_tool"}
    transport = {"network.transport": "tcp", "network.protocol.name": "http"}
    failed = {"error.type": "-32602", "rpc.response.status_code": "-32602"}
    points = recorder.points("mcp.server.operation.duration")
    assert [(dict(point.attributes), point.count) for point in points] == [
        ({**common, **transport, "gen_ai.tool.name": "add"}, 3),
        ({**common, **transport, "gen_ai.tool.name": "_OTHER", **failed}, 2),
    ]
    boundaries = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
    assert {tuple(point.explicit_bounds) for point in points} == {boundaries}


def test_who_calls_is_recorded_unless_switched_off() -> None:
    for options, expected in (({}, {"enduser.id": "writer", **HERE}), ({"record_caller": False}, {})):
        recorder = Recorder(**options)
        site = make_site(recorder, auth=make_auth())
        faces.rest("add", {"a": 1, "b": 2}).send(site.client, basic("writer"))
        [run] = recorder.take()
        found = {name: run["attributes"].get(name) for name in ("enduser.id", "client.address")}
        assert {name: value for name, value in found.items() if value} == expected


def test_arguments_and_results_are_recorded_only_if_switched_on_and_secrets_never() -> None:
    recorder = Recorder(record_arguments=True, record_results=True)
    site = make_site(recorder)
    ModernClient(site.client).call("add", {"a": 1, "b": 2})
    request, run = recorder.take()
    assert request["attributes"]["gen_ai.tool.call.arguments"] == '{"a":1,"b":2}'
    assert request["attributes"]["gen_ai.tool.call.result"] == "3"
    assert run["attributes"]["gen_ai.tool.call.arguments"] == '{"a":1,"b":2}'
    ModernClient(site.client).call("crash", {"password": "hunter2"})
    request, run = recorder.take()
    for span in (request, run):
        assert span["attributes"]["gen_ai.tool.call.arguments"] == '{"password":"[secret]"}'
    assert "events" not in run  # the text of the exception has the password
    ModernClient(site.client).call("crush", {"password": "hunter2"})
    [request] = recorder.take()
    assert request["attributes"]["gen_ai.tool.call.arguments"] == '{"password":"[hidden]"}'


def test_exceptions_are_recorded_with_the_arguments_that_they_may_quote() -> None:
    for options, expected in (({}, []), ({"record_arguments": True}, ["exception"])):
        recorder = Recorder(**options)
        site = make_site(recorder)
        site.tool(lambda word: {}[word], name="look-up")
        ModernClient(site.client).call("look-up", {"word": "egg"})
        assert recorder.take()[1].get("events", []) == expected


def test_the_log_line_of_a_call_is_inside_its_request(site: Site, recorder: Recorder) -> None:
    """So that what adds trace ids to log records finds one."""
    seen: list[bool] = []

    def look(record: logging.LogRecord) -> bool:
        seen.append(trace.get_current_span().get_span_context().is_valid)
        return True

    site.app.logger.addFilter(look)
    site.app.logger.setLevel("INFO")
    try:
        ModernClient(site.client).call("add", {"a": 1, "b": 2})
    finally:
        site.app.logger.setLevel("NOTSET")
        site.app.logger.filters.clear()
    assert seen == [True]


class _Collector(BaseHTTPRequestHandler):
    """Receives spans as an OpenTelemetry collector does, and reads them with the classes of its protocol."""

    received: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


def test_a_collector_receives_the_spans() -> None:
    """There is no collector in the registries; this one reads the same protocol."""

    class Collector(_Collector):
        received: list[ExportTraceServiceRequest] = []  # noqa: RUF012

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        recorder = Recorder()
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{server.server_port}/v1/traces")
        recorder.tracers.add_span_processor(SimpleSpanProcessor(exporter))
        ModernClient(make_site(recorder).client).call("add", {"a": 1, "b": 2})
        recorder.tracers.shutdown()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    scopes = [scope for each in Collector.received for r in each.resource_spans for scope in r.scope_spans]
    assert {scope.scope.name for scope in scopes} == {"flask_jsonrpc_mcp"}
    spans = [span for scope in scopes for span in scope.spans]
    assert [(span.name, span.kind) for span in spans] == [
        ("execute_tool add", SpanKind.INTERNAL.value + 1),  # the protocol counts from one
        ("tools/call add", SpanKind.SERVER.value + 1),
    ]


def test_without_the_extra_the_import_names_it() -> None:
    script = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try:\n    import flask_jsonrpc_mcp.telemetry.tracing\nexcept ModuleNotFoundError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("install flask-jsonrpc-mcp[otel]\n")


def test_an_app_without_telemetry_imports_none_of_it() -> None:
    script = (
        "import sys, flask, flask_jsonrpc_mcp\n"
        "app = flask.Flask('app'); app.register_blueprint(flask_jsonrpc_mcp.McpBlueprint())\n"
        "app.test_client().get('/mcp/tools/list')\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus', PREFIX))])"
    ).replace("PREFIX", "'flask_jsonrpc_mcp.telemetry'")
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_telemetry_is_a_list(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match=r"telemetry= takes a list; write telemetry=\[OpenTelemetry\(...\)\]"):
        McpBlueprint(telemetry=recorder.telemetry)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [Recorder, OpenTelemetry, AuditLog(), "otel"])
def test_something_else_than_telemetry_is_refused_at_import(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"telemetry= takes objects of flask_jsonrpc_mcp.telemetry, such as"):
        McpBlueprint(telemetry=[wrong])


@pytest.mark.parametrize("wrong", [AuditLog, "audit", [AuditLog(), AuditLog], OpenTelemetry()])
def test_something_else_than_an_audit_trail_is_refused_at_import(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"audit= takes objects of flask_jsonrpc_mcp.telemetry, such as AuditLog"):
        McpBlueprint(audit=wrong)


def test_the_sample_site_prints_its_spans(tmp_path: Path) -> None:
    database = {"DATABASE_URL": f"sqlite:///{tmp_path}/site.sqlite3", "SITE_ENV": "development"}
    subprocess.run(
        [sys.executable, "-m", "sample_app.seed"],
        cwd=ROOT,
        env={**os.environ, **database},
        check=True,
        capture_output=True,
    )
    with gunicorn("wsgi:app", tmp_path, env={**database, "OTEL_EXPORTER": "console"}) as server:
        arguments = {"id": 1}
        assert server.invoke("articles.get", arguments).status == 200
    log = server.log.read_text()
    decoder, spans, start = json.JSONDecoder(), [], log.find("{\n")
    while start >= 0:
        span, end = decoder.raw_decode(log, start)
        spans.append(span)
        start = log.find("{\n", end)
    [run] = [span for span in spans if span["name"] == "execute_tool articles.get"]
    [request] = [span for span in spans if span["name"] == "POST /mcp/tools/invoke"]
    queries = [
        span for span in spans if span["name"].startswith("SELECT") and span["parent_id"] == run["context"]["span_id"]
    ]
    assert run["parent_id"] == request["context"]["span_id"]
    assert queries
