"""Clients of both eras that answer what they are asked, for tests: the same questions, the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .mcp_messages import LegacyClient, ModernClient

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
        response = client.post(method, params)
        if response.mimetype != "text/event-stream":
            return response.get_json()
        for chunk in response.iter_encoded():
            if chunk.startswith(b":"):
                continue
            message = json.loads(chunk.removeprefix(b"data: "))
            if "method" not in message:
                response.close()
                return message
            if "id" in message:
                answer = self._answer(message)
                refused = isinstance(answer, dict) and "error" in answer
                reply = {"jsonrpc": "2.0", "id": message["id"], **(answer if refused else {"result": answer})}
                assert client.send(reply).status_code == 202
        raise AssertionError("the stream ended without a reply")

    def _answer(self, question: dict[str, Any]) -> Any:
        self.asked.append({name: question[name] for name in ("method", "params") if name in question})
        return self.answers.pop(0) if isinstance(self.answers, list) else self.answers(question)


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
