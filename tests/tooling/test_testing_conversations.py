"""The test kit in longer conversations, with a server that answers what the specification shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask, Response, g, has_app_context, request

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.testing import LogMessage, McpTestClient, Progress
from tests.conftest import make_app

Message = dict[str, Any]

LOGIN = {"method": "elicitation/create", "params": {"mode": "form", "message": "Your name?", "requestedSchema": {}}}
CAPITAL = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 100}}
ROOTS = {"method": "roots/list"}


class WrittenResponse(Response):
    """A response that is sent with WSGI's ``write`` callable, while the app is being called."""

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        write = start_response(self.status, self.headers.to_wsgi_list())
        for part in self.iter_encoded():
            write(part)
        return []


class ScriptedServer:
    """Gives prepared answers, one after the other, and keeps what it was sent."""

    def __init__(self, *answers: Message | list[Message], stream: type[Response] = Response) -> None:
        self.answers = list(answers)
        self.stream = stream
        self.payloads: list[Message] = []
        self.headers: list[dict[str, str]] = []
        self.app: Flask = make_app(McpBlueprint(), SECRET_KEY="key")
        self.app.view_functions["mcp.mcp"] = self.answer

    def answer(self) -> Response:
        payload = request.get_json()
        self.payloads.append(payload)
        self.headers.append(dict(request.headers))
        if "method" not in payload or "id" not in payload:
            return Response(status=202)
        if payload["method"] == "initialize":
            return Response(json.dumps(self._reply({"protocolVersion": "2025-11-25"})), mimetype="application/json")
        answer = self.answers.pop(0)
        if isinstance(answer, dict):
            return Response(json.dumps(self._reply(answer)), mimetype="application/json")
        *before, result = answer
        events = [*before, self._reply(result)]
        # As a server may send them: with comments, other line ends, in pieces of any size.
        stream = b": hello\r\n\r\n" + b"".join(
            b"event: message\ndata: " + json.dumps(e).encode() + b"\n\n" for e in events
        )
        return self.stream((stream[i : i + 7] for i in range(0, len(stream), 7)), mimetype="text/event-stream")

    def _reply(self, result: Message) -> Message:
        return {"jsonrpc": "2.0", "id": self.payloads[-1]["id"], "result": result}


def done(value: Any) -> Message:
    content = [{"type": "text", "text": json.dumps(value)}]
    return {"resultType": "complete", "content": content, "structuredContent": value}


def asking(state: str | None = None, **questions: Message) -> Message:
    result: Message = {"resultType": "input_required", "inputRequests": questions}
    return result if state is None else {**result, "requestState": state}


def notice(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


@pytest.fixture(params=[Response, WrittenResponse], ids=["iterated", "written"])
def stream(request: pytest.FixtureRequest) -> type[Response]:
    """Both ways in which a WSGI app can send an event stream."""
    response: type[Response] = request.param
    return response


def test_progress_and_log_are_collected_from_the_stream(stream: type[Response]) -> None:
    server = ScriptedServer(
        [
            notice("progress", progressToken=1, progress=1, total=2, message="half"),
            notice("message", level="info", data={"rows": 1}, logger="import"),
            notice("tools/list_changed"),
            notice("progress", progressToken=1, progress=2),
            done("imported"),
        ],
        stream=stream,
    )
    result = McpTestClient(server.app).call("import", listen=True)
    assert result.value == "imported"
    assert result.progress == [Progress(1, 2, "half"), Progress(2)]
    assert result.log == [LogMessage("info", {"rows": 1}, "import")]


def test_progress_that_was_not_requested_is_not_known() -> None:
    result = McpTestClient(ScriptedServer(done(1)).app).call("import")
    with pytest.raises(AssertionError, match="the log of import, call it with listen=True, on MCP"):
        result.progress  # noqa: B018 (it raises)


def test_reports_are_requested_with_listen() -> None:
    server = ScriptedServer(done(1), done(2), done(3))
    client = McpTestClient(server.app)
    client.call("a", listen=True)
    client.call("b", listen=True)
    client.call("c")
    first, second, third = (payload["params"]["_meta"] for payload in server.payloads)
    assert first["io.modelcontextprotocol/logLevel"] == "debug"
    assert set(first["io.modelcontextprotocol/clientCapabilities"]) == {"elicitation", "sampling", "roots"}
    assert first["progressToken"] != second["progressToken"]
    assert {"progressToken", "io.modelcontextprotocol/logLevel"}.isdisjoint(third)


def test_questions_are_answered_and_the_call_is_made_again() -> None:
    server = ScriptedServer(asking("state-1", login=LOGIN, capital=CAPITAL), asking(roots=ROOTS), done("welcome"))
    answers = {"login": {"name": "octocat"}, "capital": "Paris", "roots": ["file:///a", {"uri": "file:///b"}]}
    result = McpTestClient(server.app).call("greet", {"x": 1}, answers=answers)
    assert result.value == "welcome"
    assert result.questions == {"login": LOGIN, "capital": CAPITAL, "roots": ROOTS}
    first, second, third = (payload["params"] for payload in server.payloads)
    assert second["inputResponses"] == {
        "login": {"action": "accept", "content": {"name": "octocat"}},
        "capital": {
            "role": "assistant",
            "content": {"type": "text", "text": "Paris"},
            "model": "test",
            "stopReason": "endTurn",
        },
    }
    assert second["requestState"] == "state-1"
    assert third["inputResponses"] == {"roots": {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}}
    assert "requestState" not in third, "a client may send none that it was not given"
    assert first["arguments"] == second["arguments"] == third["arguments"] == {"x": 1}
    assert len({payload["id"] for payload in server.payloads}) == 3


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("decline", {"action": "decline"}),
        ({"action": "cancel"}, {"action": "cancel"}),
        ({"action": "run"}, {"action": "accept", "content": {"action": "run"}}),
        ({}, {"action": "accept", "content": {}}),
    ],
)
def test_a_form_can_be_answered_in_several_ways(answer: Any, sent: Message) -> None:
    server = ScriptedServer(asking(login=LOGIN), done(1))
    McpTestClient(server.app).call("greet", answers={"login": answer})
    assert server.payloads[1]["params"]["inputResponses"] == {"login": sent}


def test_an_answer_that_is_none_says_what_would_be() -> None:
    server = ScriptedServer(asking(login=LOGIN))
    with pytest.raises(ValueError, match="'yes' is not an answer to a form; pass a dict of its fields"):
        McpTestClient(server.app).call("greet", answers={"login": "yes"})


def test_a_function_can_answer_by_what_is_asked() -> None:
    server = ScriptedServer(asking(login=LOGIN), done("welcome"))
    seen = []

    def answer(key: str, question: Any) -> Any:
        seen.append((key, question["params"]["message"]))
        return {"name": "ada"}

    assert McpTestClient(server.app).call("greet", answers=answer)
    assert seen == [("login", "Your name?")]


def test_a_question_without_an_answer_is_a_failure_that_names_it() -> None:
    server = ScriptedServer(asking(login=LOGIN, roots=ROOTS))
    result = McpTestClient(server.app).call("greet", answers={"roots": []})
    assert result.error.slug == "input_required"
    assert result.error.message == "It asks for 'login' (elicitation/create: Your name?)"
    assert result.error.advice == "answer it: answers={'login': ...}"
    assert result.questions == {"login": LOGIN, "roots": ROOTS}


def test_a_method_that_never_stops_asking_ends_the_test() -> None:
    server = ScriptedServer(*[asking(login=LOGIN)] * 30)
    with pytest.raises(AssertionError, match="greet has asked 20 times"):
        McpTestClient(server.app).call("greet", answers=lambda key, question: {})


def test_older_clients_answer_on_the_way(stream: type[Response]) -> None:
    questions: list[Message] = [{"jsonrpc": "2.0", "id": "x", **LOGIN}, {"jsonrpc": "2.0", "id": "y", **ROOTS}]
    server = ScriptedServer([*questions, done({"name": "ada"})], stream=stream)
    client = McpTestClient(server.app, version="2025-11-25")
    result = client.call("greet", answers={"login": {"name": "ada"}, "roots": []})
    assert result.value == {"name": "ada"}
    assert result.questions == {"login": LOGIN, "roots": ROOTS}
    responses = [payload for payload in server.payloads if "method" not in payload]
    assert responses == [
        {"jsonrpc": "2.0", "id": "x", "result": {"action": "accept", "content": {"name": "ada"}}},
        {"jsonrpc": "2.0", "id": "y", "result": {"roots": []}},
    ]


class AskingServer(ScriptedServer):
    """Asks a question from inside of the call, and looks for the answer as soon as the question is written."""

    def __init__(self) -> None:
        super().__init__()
        self.app.before_request(self.mark)

    def mark(self) -> None:
        assert "id" not in g, "each request has a g of its own"
        g.id = request.get_json().get("id")

    def answer(self) -> Response:
        if request.get_json().get("method") != "tools/call":
            return super().answer()
        return WrittenResponse(self.ask(), mimetype="text/event-stream")

    def ask(self) -> Iterator[str]:
        number = request.get_json()["id"]
        yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': 'login', **LOGIN})}\n\n"
        assert g.id == request.get_json()["id"] == number
        name = self.payloads[-1]["result"]["content"]["name"]
        yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': number, 'result': done(name)})}\n\n"


def test_a_method_that_waits_for_an_answer_gets_it_by_a_request_of_its_own() -> None:
    client = McpTestClient(AskingServer().app, version="2025-11-25")
    assert client.call("greet", answers={"login": {"name": "ada"}}).value == "ada"


def test_an_answer_has_a_g_of_its_own_in_a_test_with_an_app_context() -> None:
    """There all other requests share the g of the test, as Flask's own test client has it."""
    server = AskingServer()
    server.app.before_request_funcs[None] = [lambda: setattr(g, "id", request.get_json().get("id"))]
    with server.app.app_context():
        client = McpTestClient(server.app, version="2025-11-25")
        assert client.call("greet", answers={"login": {"name": "ada"}}).value == "ada"


def test_a_function_that_answers_is_outside_of_the_request_that_asks() -> None:
    """As a client is, so it may make calls itself."""
    client = McpTestClient(AskingServer().app, version="2025-11-25")

    def answer(key: str, question: Any) -> Any:
        assert not has_app_context()
        return {"name": client.call("greet", answers={"login": {"name": "ada"}}).value.upper()}

    assert client.call("greet", answers=answer).value == "ADA"


def test_a_flask_client_in_a_with_block_keeps_the_request_that_asked() -> None:
    app = AskingServer().app
    with app.test_client() as http:
        client = McpTestClient(app, version="2025-11-25", http=http)
        assert client.call("greet", answers={"login": {"name": "ada"}}).value == "ada"
        assert request.get_json()["method"] == "tools/call"


def test_a_refused_answer_fails_the_test() -> None:
    app = AskingServer().app
    app.before_request(lambda: None if "method" in request.get_json() else ("closed", 503))
    with pytest.raises(AssertionError, match="the app refused the answer to 'login': HTTP 503"):
        McpTestClient(app, version="2025-11-25").call("greet", answers={"login": {"name": "ada"}})


def test_a_mistake_in_an_answer_fails_the_test_whatever_the_app_makes_of_it(stream: type[Response]) -> None:
    """To the app it looks like a client that has gone, which it may log or ignore."""
    server = ScriptedServer([{"jsonrpc": "2.0", "id": "x", **LOGIN}, done("?")], stream=stream)
    wsgi_app = server.app.wsgi_app

    def forgiving(environ: Any, start_response: Any) -> Any:
        try:
            return wsgi_app(environ, start_response)
        except BrokenPipeError:
            return []

    server.app.wsgi_app = forgiving  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="'yes' is not an answer to a form") as caught:
        McpTestClient(server.app, version="2025-11-25").call("greet", answers={"login": "yes"})
    assert caught.value.__suppress_context__, "pytest shows the mistake alone"


def test_a_stream_that_breaks_fails_the_test_with_the_exception_of_the_app(stream: type[Response]) -> None:
    server = ScriptedServer()

    def broken() -> Iterator[bytes]:
        yield b": hello\n\n"
        raise RuntimeError("out of paper")

    server.app.view_functions["mcp.mcp"] = lambda: stream(broken(), mimetype="text/event-stream")
    with pytest.raises(RuntimeError, match="out of paper"):
        McpTestClient(server.app).call("print")


def test_a_stream_without_a_response_is_a_failure(stream: type[Response]) -> None:
    server = ScriptedServer()
    server.app.view_functions["mcp.mcp"] = lambda: stream([b": bye\n\n"], mimetype="text/event-stream")
    error = McpTestClient(server.app).call("print").error
    assert (error.slug, error.message) == ("http_200", "HTTP 200 OK")


def test_older_clients_ask_for_the_log_once() -> None:
    server = ScriptedServer({}, done({}), done({}))
    client = McpTestClient(server.app, version="2025-11-25")
    client.call("a", listen=True)
    client.call("b", listen=True)
    assert [payload["method"] for payload in server.payloads][2:] == ["logging/setLevel", "tools/call", "tools/call"]
    assert server.payloads[2]["params"] == {"level": "debug"}


def test_an_older_client_without_an_answer_says_so_and_the_call_has_failed() -> None:
    server = ScriptedServer([{"jsonrpc": "2.0", "id": "login", **LOGIN}, {**done("?"), "isError": True}])
    result = McpTestClient(server.app, version="2025-11-25").call("greet")
    assert result.error.slug == "input_required"
    assert "error" in next(payload for payload in server.payloads if "method" not in payload)


def test_the_handshake_happens_once() -> None:
    server = ScriptedServer(done({}), done({}))
    client = McpTestClient(server.app, version="2025-06-18")
    client.call("a")
    client.call("b")
    methods = [payload["method"] for payload in server.payloads]
    assert methods == ["initialize", "notifications/initialized", "tools/call", "tools/call"]
    assert [headers.get("Mcp-Protocol-Version") for headers in server.headers] == [None, *["2025-06-18"] * 3]


def test_prompts_are_listed_and_got() -> None:
    messages = [
        {"role": "user", "content": {"type": "text", "text": "Review"}},
        {"role": "assistant", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
    ]
    server = ScriptedServer(
        {"prompts": [{"name": "a"}], "nextCursor": "more"}, {"prompts": [{"name": "b"}]}, {"messages": messages}
    )
    client = McpTestClient(server.app)
    assert [prompt["name"] for prompt in client.list_prompts()] == ["a", "b"]
    result = client.get_prompt("größe", {"code": "x"})
    assert (result.value, result.text) == (messages, "Review")
    assert server.payloads[1]["params"]["cursor"] == "more"
    assert server.payloads[2]["params"]["arguments"] == {"code": "x"}
    assert server.headers[2]["Mcp-Name"] == "=?base64?Z3LDtsOfZQ==?="


@pytest.mark.parametrize(
    ("contents", "value"),
    [
        ([{"uri": "a:b", "mimeType": "text/plain", "text": "hello"}], "hello"),
        ([{"uri": "a:b", "mimeType": "application/json", "text": '{"a": 1}'}], {"a": 1}),
        ([{"uri": "a:b", "blob": "AAE="}], b"\x00\x01"),
        ([{"uri": "a:b", "text": "1"}, {"uri": "a:c", "text": "2"}], ["1", "2"]),
    ],
    ids=["text", "json", "bytes", "several"],
)
def test_resources_are_read(contents: list[Message], value: Any) -> None:
    server = ScriptedServer({"contents": contents})
    result = McpTestClient(server.app).read_resource("a:b")
    assert result.value == value
    assert result.content == contents
    assert server.headers[0]["Mcp-Name"] == "a:b"


@pytest.mark.parametrize(
    ("look", "method", "member"),
    [
        (McpTestClient.list_resources, "resources/list", "resources"),
        (McpTestClient.list_resource_templates, "resources/templates/list", "resourceTemplates"),
    ],
    ids=["resources", "templates"],
)
def test_resources_are_listed(look: Callable[[McpTestClient], Any], method: str, member: str) -> None:
    server = ScriptedServer({member: [{"name": "a"}]})
    assert look(McpTestClient(server.app)) == [{"name": "a"}]
    assert server.payloads[0]["method"] == method


def test_what_is_being_typed_is_completed() -> None:
    answer = {"completion": {"values": ["flask"], "hasMore": False}}
    server = ScriptedServer(answer, answer)
    client = McpTestClient(server.app)
    assert client.complete("code_review", "framework", "fla", context={"language": "python"}) == ["flask"]
    assert client.complete("file:///{path}", "path") == ["flask"]
    prompt, resource = (payload["params"] for payload in server.payloads)
    assert prompt["ref"] == {"type": "ref/prompt", "name": "code_review"}
    assert prompt["argument"] == {"name": "framework", "value": "fla"}
    assert prompt["context"] == {"arguments": {"language": "python"}}
    assert resource["ref"] == {"type": "ref/resource", "uri": "file:///{path}"}
    assert "context" not in resource
