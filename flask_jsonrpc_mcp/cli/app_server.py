"""The app as an MCP server on standard input and output: each request inside a Flask request of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from ..calls import Cancellation
from ..envelope import Prepared, Request
from ..errors import RpcError
from ..mailbox import answer_timeout
from ..mcp import legacy, modern
from ..mcp.asking import answer_by_asking, spell_question
from ..mcp.reporting import Reporter
from ..mcp.session import KeptLogLevel
from ..mcp.session import Session as McpSession
from ..mcp.sessions import Agreement
from ..mcp.subscriptions import Subscription
from ..questions import Answers, Question
from ..schema.mirrored import MirroredArgument
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
            return _LegacyExchange(session, exchange, exchange.agreement, cancellation, self._log_level).answer()


class _NoMirror:
    """There are no headers here that could say something else than the request."""

    version: str | None = None

    def check_version(self, version: str) -> None: ...

    def check_method(self, method: str) -> None: ...

    def check_name(self, name: Any) -> None: ...

    def check_arguments(self, mirrored: tuple[MirroredArgument, ...], arguments: Any) -> None: ...


def _answer_modern(session: Session, exchange: Exchange, cancellation: Cancellation) -> dict[str, Any] | Prepared:
    answer = modern.answer(
        session.core,
        session.caller,
        exchange.request,
        _NoMirror(),
        AUDIENCE,
        lambda message: _send(exchange, message),
        cancellation,
    )
    if not isinstance(answer, Subscription):
        return answer
    for message in answer.messages():
        if message is not None:
            _send(exchange, message)
        elif exchange.wait(LOOK_AGAIN):
            cancellation.request()
    return answer.result


class _LegacyExchange:
    """A request of a client from before 2026-07-28, which is asked while its request is open."""

    def __init__(
        self,
        session: Session,
        exchange: Exchange,
        agreement: Agreement,
        cancellation: Cancellation,
        log_level: KeptLogLevel,
    ) -> None:
        params = exchange.request.params
        meta = params.get("_meta") if isinstance(params, Mapping) else None
        self._meta: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
        self._session = session
        self._exchange = exchange
        self._agreement = agreement
        self._cancellation = cancellation
        self._log_level = log_level
        self._reporter = Reporter(
            lambda message: _send(exchange, message), agreement.version, self._meta, log_level.get
        )

    def answer(self) -> Any:
        return answer_by_asking(self._run, self._ask)

    def _run(self, answers: Answers) -> Any:
        session = McpSession(
            self._session.core,
            self._session.caller,
            self._agreement.version,
            AUDIENCE,
            self._agreement.capabilities,
            self._meta,
            answers,
            self._reporter,
            self._log_level,
            self._cancellation,
        )
        return legacy.answer(session, self._exchange.request)

    def _ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        return dict(self._responses(questions))

    def _responses(self, questions: Mapping[str, Question]) -> Iterator[tuple[str, Any]]:
        for key, question in questions.items():
            asked = spell_question(question, self._agreement.version)
            try:
                yield key, self._exchange.ask(asked["method"], asked.get("params", {}), answer_timeout())
            except RpcError as error:
                yield key, error


def _send(exchange: Exchange, message: Mapping[str, Any]) -> None:
    exchange.notify(message["method"], message["params"])
