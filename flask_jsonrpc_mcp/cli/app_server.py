"""``flask mcp stdio``: the app as an MCP server, each request in a Flask request context of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from flask import Flask
from flask.cli import ScriptInfo

from ..ask import Question
from ..auth import Caller
from ..envelope import RpcRequest
from ..errors import RpcError
from ..mailbox import answer_timeout
from ..mcp import elicitation, server, subscriptions
from ..mcp.protocol import LogLevel, RequestContext
from ..mcp.sessions import Session, negotiate
from ..mcp.subscriptions import Subscription
from ..mcp.versions import question_request
from ..registry import Registry
from ..stdio import Client, Exchange, claim_standard_streams, serve
from .arguments import caller_options, session

NAME = "stdio"
"""Replaces the blueprint's URL in signed states, so that they are not valid over HTTP."""


class AppServer:
    """Answers the requests of a client on stdio. Implements `stdio.Server`.

    :param options: The options of `session`.
    """

    def __init__(self, app: Flask, **options: str | None) -> None:
        self._app = app
        self._options = options
        self._log_level = LogLevel()
        self._session: tuple[str, float] | None = None

    @contextmanager
    def _open_request(self) -> Iterator[tuple[Flask, Registry, Caller]]:
        with self._app.app_context():
            try:
                with session(**self._options, anonymous=True) as (registry, caller):
                    yield self._app, registry, caller
            except click.ClickException as error:
                raise RpcError(error.message) from error

    def connect(self, client: Client) -> None:
        """Do nothing: changes are only announced to clients that listen."""

    def initialize(self, message: RpcRequest) -> tuple[Session, Any]:
        with self._open_request() as opened:
            result = _observed(server.initialize, message, RequestContext.new(*opened, mount=lambda: NAME))
        session = negotiate(message)
        self._session = session.version, time.monotonic()
        return session, result

    def answer(self, exchange: Exchange) -> Any:
        def handle(message: RpcRequest, context: RequestContext) -> Any:
            if exchange.session is None:
                result = server.handle(message, context)
                return self._listen(result, exchange) if isinstance(result, Subscription) else result
            return elicitation.run_asking(
                lambda answers: server.handle(message, context._replace(answers=answers)),
                lambda questions: _ask(questions, exchange, context.version),
                around=context.registry.around_questions,
            )

        with self._open_request() as opened:
            context = RequestContext.new(
                *opened, mount=lambda: NAME, cancellation=exchange.cancellation, send=exchange.send
            )
            if exchange.session is not None:
                context = context._replace(
                    version=exchange.session.version,
                    capabilities=exchange.session.capabilities,
                    log_level=self._log_level,
                )
            return _observed(handle, exchange.message, context)

    def close(self) -> None:
        """Report how long the session of a client from before 2026-07-28 was. Called when the client is gone."""
        if self._session is not None:
            version, began = self._session
            with self._open_request() as (_, registry, _):
                for observe in registry.session_observers:
                    observe(version, time.monotonic() - began)

    def _listen(self, subscription: Subscription, exchange: Exchange) -> dict[str, Any]:
        def identify() -> Caller:
            with self._open_request() as (_, _, caller):
                return caller

        def wait() -> None:
            if exchange.wait(subscriptions.POLL_EVERY):
                subscription.context.cancellation.request()

        return subscription.run(exchange.message.id, exchange.send, wait, identify)


def _observed(handle: Callable[..., Any], message: RpcRequest, context: RequestContext) -> Any:
    for hook in context.registry.around_requests:
        handle = partial(hook, handle)
    return handle(message, context)


def _ask(questions: Mapping[str, Question], exchange: Exchange, version: str) -> dict[str, Any]:
    """Ask the client one question after the other, while its request is open."""
    responses: dict[str, Any] = {}
    for key, question in questions.items():
        try:
            responses[key] = exchange.ask({"params": {}, **question_request(question, version)}, answer_timeout())
        except RpcError as error:
            responses[key] = error
    return responses


@click.command("stdio", short_help="Serve the app to an MCP client on standard input and output.")
@caller_options
@click.pass_context
def serve_stdio(context: click.Context, /, **options: Any) -> None:
    """Serve the app to an MCP client on standard input and output, in every version of the protocol.

    An MCP client starts this command; flask mcp config prints its configuration. Without --user it serves what an
    anonymous caller may use. Each request runs in a request context of the app, several at a time, and everything that
    methods print goes to stderr.
    """
    # Before the app is loaded, because its modules may print something.
    streams = claim_standard_streams()
    app = context.ensure_object(ScriptInfo).load_app()
    # Fail now, where a person reads it, and not with every request.
    with app.app_context(), session(**options, anonymous=True) as (registry, _):
        if registry.auth.required and options["user"] is None:
            raise click.UsageError("This app requires sign-in (require_auth=True); choose a user with --user")
    server = AppServer(app, **options)
    serve(server, *streams)
    server.close()
