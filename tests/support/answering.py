"""Clients of both eras that answer what they are asked, for tests: the same questions, the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from flask.testing import FlaskClient

from tests.support.mcp_messages import LegacyClient, ModernClient

Answer = Callable[[dict[str, Any]], Any]
"""From a question, a request with its method and params, to what the client answers."""

EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""The capabilities of a client that can do all there is."""

MAX_ROUNDS = 10


@dataclass
class Respondent:
    """A client that sends a request, answers what comes of it, and gets the reply in the end.

    :param answers: What it answers: a function, or the answers in the order of the questions.
    :param asked: The questions it was asked, each as a request with its method and params.
    """

    client: ModernClient | LegacyClient
    answers: Answer | list[Any]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool; returns its value, or the text of its failure."""
        return outcome(self.post("tools/call", {"name": name, "arguments": dict(arguments or {})}))

    def post(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request; returns the reply to it."""
        if isinstance(self.client, ModernClient):
            return self._again_and_again(self.client, method, params)
        return self._on_the_stream(self.client, method, params)

    def _again_and_again(self, client: ModernClient, method: str, params: dict[str, Any]) -> Any:
        sent = params
        for _ in range(MAX_ROUNDS):
            reply = client.post(method, sent).get_json()
            needed = reply.get("result", {})
            if needed.get("resultType") != "input_required":
                return reply
            responses = {key: self._answer(question) for key, question in needed["inputRequests"].items()}
            sent = {**params, "inputResponses": responses, "requestState": needed["requestState"]}
        raise AssertionError("the questions do not end")

    def _on_the_stream(self, client: LegacyClient, method: str, params: dict[str, Any]) -> Any:
        replies = []

        def hear(chunk: bytes) -> None:
            if chunk.startswith(b":"):
                return
            message = json.loads(chunk.removeprefix(b"data: "))
            if "method" not in message:
                replies.append(message)
            elif "id" in message:
                answer = self._answer(message)
                refused = isinstance(answer, dict) and "error" in answer
                reply = {"jsonrpc": "2.0", "id": message["id"], **(answer if refused else {"result": answer})}
                assert client.send(reply).status_code == 202

        with listening(client.client, hear) as heard:
            response = client.post(method, params)
        if response.mimetype != "text/event-stream":
            return response.get_json()
        for chunk in islice(response.iter_encoded(), len(heard), None):
            hear(chunk)
        response.close()
        assert replies, "the stream ended without a reply"
        return replies[0]

    def _answer(self, question: dict[str, Any]) -> Any:
        self.asked.append({name: question[name] for name in ("method", "params") if name in question})
        return self.answers.pop(0) if isinstance(self.answers, list) else self.answers(question)


@contextmanager
def listening(client: FlaskClient, hear: Callable[[bytes], None]) -> Iterator[list[bytes]]:
    """Hear what an app writes while its method runs, as a client over the network does; returns what that was.

    The Flask client returns only when a response is complete, and that may wait for the answer to a question in it.

    :param hear: A ``BrokenPipeError`` of it is that of a client that leaves; any other exception fails the test.
    """
    heard: list[bytes] = []
    failures: list[Exception] = []

    def note_and_hear(chunk: bytes) -> None:
        heard.append(chunk)
        try:
            hear(chunk)
        except BrokenPipeError:
            raise
        except Exception as error:  # the app takes it for that of a closed connection
            failures.append(error)
            raise

    app = client.application
    if not isinstance(app.wsgi_app, Heard):
        app.wsgi_app = Heard(app.wsgi_app)  # type: ignore[method-assign]
    client.environ_base[HEAR] = note_and_hear  # type: ignore[assignment]
    try:
        yield heard
    finally:
        del client.environ_base[HEAR]
        for failure in failures:
            raise failure


HEAR = "tests.hear"
"""The member of a WSGI environment with the function that is called with each chunk that the app writes."""


class Heard:
    """WSGI middleware that calls a function of the environment with what the app writes."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: Any, start_response: Any) -> Any:
        hear = environ.pop(HEAR, None)

        def start(*args: Any) -> Callable[[bytes], object]:
            write = start_response(*args)

            def write_and_hear(chunk: bytes) -> None:
                write(chunk)
                hear(chunk)

            return write_and_hear

        return self._app(environ, start_response if hear is None else start)


def outcome(reply: Any) -> Any:
    """What a tool gave, or what its failure says."""
    if "error" in reply:
        return reply["error"]
    result = reply["result"]
    if result["isError"]:
        return result["content"][0]["text"]
    # Versions before 2025-06-18 have nothing but the text.
    value = result["structuredContent"] if "structuredContent" in result else json.loads(result["content"][0]["text"])
    return value["result"] if isinstance(value, dict) and set(value) == {"result"} else value


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


DECLINE, CANCEL = {"action": "decline"}, {"action": "cancel"}


def sampled(text: str) -> dict[str, Any]:
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": text}, "stopReason": "endTurn"}


def questions_of(client: ModernClient, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Call a tool, and return what a client of 2026-07-28 is told when it is asked first."""
    result = client.call(name, arguments).get_json()["result"]
    assert result["resultType"] == "input_required", result
    return result
