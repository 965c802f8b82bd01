"""The app as an MCP server on standard input and output: each request inside a Flask request of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ..calls import Cancellation
from ..envelope import Prepared, Request
from ..errors import RpcError
from ..mailbox import answer_timeout
from ..mcp import legacy, modern
from ..mcp.asking import spell_question
from ..mcp.session import KeptLogLevel
from ..mcp.sessions import Agreement
from ..mcp.subscriptions import Subscription
from ..questions import Question
from ..stdio.client import Client
from ..stdio.exchange import Exchange
from .callers import Session

AUDIENCE = "stdio"
"""For whom a request state is signed: it is of no use over HTTP."""

LOOK_AGAIN = 0.2
"""After how many seconds someone who listens for changes looks again."""

OpenSession = Callable[[], AbstractContextManager[Session]]
"""Opens a Flask request in which someone calls."""


class AppServer:
    """Answers MCP requests by an app. A `flask_jsonrpc_mcp.stdio.exchange.Server`."""

    def __init__(self, open_session: OpenSession) -> None:
        self._open_session = open_session
        self._log_level = KeptLogLevel()

    def connect(self, client: Client) -> None:
        """Older clients hear of no changes: this app's are told to those who listen, which came later."""

    def initialize(self, request: Request) -> tuple[Agreement, Any]:
        with self._open_session() as session:
            agreement = legacy.agree(request)
            return agreement, legacy.welcome(session.core, agreement)

    def answer(self, exchange: Exchange) -> Any:
        cancellation = Cancellation()
        exchange.when_cancelled(cancellation.request)
        with self._open_session() as session:
            if exchange.agreement is None:
                return _answer_modern(session, exchange, cancellation)
            opened = legacy.open_session(
                session.core,
                session.caller,
                exchange.agreement,
                exchange.request,
                AUDIENCE,
                self._log_level,
                cancellation,
                partial(_send, exchange),
            )
            return legacy.answer_asking(opened, exchange.request, partial(_ask, exchange, opened.version))


def _answer_modern(session: Session, exchange: Exchange, cancellation: Cancellation) -> dict[str, Any] | Prepared:
    answer = modern.answer(
        session.core,
        session.caller,
        exchange.request,
        AUDIENCE,
        cancellation,
        send=partial(_send, exchange),
    )
    if not isinstance(answer, Subscription):
        return answer
    for message in answer.messages():
        if message is not None:
            _send(exchange, message)
        elif exchange.wait(LOOK_AGAIN):
            cancellation.request()
    return answer.result


def _ask(exchange: Exchange, version: str, questions: Mapping[str, Question]) -> dict[str, Any]:
    """Ask the client one thing after the other, while its request is open."""
    responses: dict[str, Any] = {}
    for key, question in questions.items():
        asked = spell_question(question, version)
        try:
            responses[key] = exchange.ask(asked["method"], asked.get("params", {}), answer_timeout())
        except RpcError as error:
            responses[key] = error
    return responses


def _send(exchange: Exchange, message: Mapping[str, Any]) -> None:
    exchange.notify(message["method"], message["params"])
