"""The app on stdio: each request runs in a Flask request context of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

from flask import Flask

from .ask import Question
from .auth import Caller
from .call import Cancellation
from .envelope import RpcRequest
from .errors import RpcError
from .mailbox import answer_timeout
from .mcp import elicitation, server, subscriptions
from .mcp.protocol import MODERN, LogLevel, Progress, RequestContext
from .mcp.sessions import Session
from .mcp.subscriptions import Subscription
from .mcp.versions import question_request
from .registry import Registry
from .stdio import Client, Exchange

NAME = "stdio"
"""Stands for the blueprint's name in signed states, which are then not valid over HTTP."""

OpenRequest = Callable[[], AbstractContextManager[tuple[Flask, Registry, Caller]]]
"""Pushes a request context, and returns the app, the registry and the caller."""


class AppServer:
    """Answers the requests of a client on stdio. Implements `stdio.Server`."""

    def __init__(self, open_request: OpenRequest) -> None:
        self._open_request = open_request
        self._log_level = LogLevel()

    def connect(self, client: Client) -> None:
        """Do nothing: changes are only announced to clients that listen."""

    def initialize(self, message: RpcRequest) -> tuple[Session, Any]:
        with self._open_request() as (app, registry, caller):
            return server.initialize(message, _context(app, registry, caller))

    def answer(self, exchange: Exchange) -> Any:
        with self._open_request() as (app, registry, caller):
            context = _context(app, registry, caller)._replace(
                send=lambda message: exchange.notify(message["method"], message["params"]),
            )
            exchange.when_cancelled(context.cancellation.request)
            if exchange.session is None:
                result = server.handle(exchange.message, context)
                return _listen(result, exchange) if isinstance(result, Subscription) else result
            context = context._replace(
                version=exchange.session.version,
                capabilities=exchange.session.capabilities,
                log_level=self._log_level,
            )

            def ask(questions: Mapping[str, Question]) -> dict[str, Any]:
                return _ask(questions, exchange, context.version)

            return elicitation.run_asking(
                lambda answers: server.handle(exchange.message, context._replace(answers=answers)), ask
            )


def _context(app: Flask, registry: Registry, caller: Caller) -> RequestContext:
    return RequestContext(
        app=app,
        registry=registry,
        caller=caller,
        version=MODERN,
        cancellation=Cancellation(),
        log_level=LogLevel(),
        progress=Progress(),
        mount=NAME,
    )


def _listen(subscription: Subscription, exchange: Exchange) -> dict[str, Any]:
    with closing(subscription.messages(exchange.message.id)) as messages:
        for message in messages:
            if message is not None:
                exchange.notify(message["method"], message["params"])
            elif exchange.wait(subscriptions.POLL_EVERY):
                subscription.context.cancellation.request()
    return subscriptions.final_result(exchange.message.id)


def _ask(questions: Mapping[str, Question], exchange: Exchange, version: str) -> dict[str, Any]:
    """Ask the client one question after the other, while its request is open."""
    responses: dict[str, Any] = {}
    for key, question in questions.items():
        asked = question_request(question, version)
        try:
            responses[key] = exchange.ask(asked["method"], asked.get("params", {}), answer_timeout())
        except RpcError as error:
            responses[key] = error
    return responses
