"""Requests to an app in this process, by Flask's test client.

werkzeug's test client keeps what an app writes until the app has returned. A method that asks a client from before
2026-07-28 waits for the answer before it returns, so here each event is read as soon as the app writes it, and the
answer is sent from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flask import Flask, request
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers

from ..config import PREFIX
from ..invoke import method_called
from ..registry import Registry

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

EVENT_STREAM = "text/event-stream"

Message = dict[str, Any]
Receive = Callable[[Message], None]

_OBSERVED = "flask_jsonrpc_mcp.testing"


@dataclass(frozen=True)
class Reply:
    """The response to one HTTP request.

    :param body: The parsed JSON; ``None`` if it is not JSON.
    :param observed: What the signal `method_called` was sent with; empty if it was not sent.
    """

    status: int
    headers: Headers
    body: Any
    observed: Mapping[str, Any]


FROM_A_PAGE = {"Sec-Fetch-Site": "same-origin"}
"""What a browser sends with the requests of a page of the same site, so that its cookies may sign in."""


@dataclass(frozen=True)
class Transport:
    """Sends requests to one blueprint of an app.

    :param headers: Sent with every request, such as credentials.
    :param http: The test client to use; otherwise a new one for each request, without cookies.
    """

    app: Flask
    blueprint: str
    registry: Registry
    headers: Mapping[str, str]
    http: FlaskClient | None = None

    def send(
        self,
        endpoint: str,
        *,
        json: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        on_message: Receive = lambda message: None,
        is_inner: bool = False,
    ) -> Reply:
        """GET one of the blueprint's routes, or POST JSON to it.

        :param on_message: Called with each message of an event stream before the response, as soon as it is sent.
        :param is_inner: Whether this thread is inside of another request, whose contexts an ``http`` may preserve.
        """
        observed: dict[str, Any] = {}
        responses: list[Message] = []

        def observe(app: Flask, **signal: Any) -> None:
            # Other threads may be calling the same app.
            if request.environ.get(_OBSERVED) is observed:
                observed.update(signal)

        def receive(message: Message) -> None:
            if "method" in message:
                on_message(message)
            else:
                responses.append(message)

        app = copy(self.app)  # the app itself is left as it is
        app.wsgi_app = read_events_at_once(self.app, receive)  # type: ignore[method-assign, assignment]
        client = copy(self.http or self.app.test_client())  # with the same cookies
        client.application = app
        client.preserve_context = client.preserve_context and not is_inner
        with method_called.connected_to(observe, sender=self.app):
            response = client.open(
                self._locate(endpoint),
                method="GET" if json is None else "POST",
                json=json,
                query_string=dict(query or {}),
                headers={**(FROM_A_PAGE if self.http else {}), **self.headers, **(headers or {})},
                environ_overrides={_OBSERVED: observed},
            )
        if response.mimetype == EVENT_STREAM:
            body = responses[-1] if responses else None
        else:
            body = response.get_json(silent=True)
        return Reply(response.status_code, response.headers, body, observed)

    def _locate(self, endpoint: str) -> str:
        """Return the URL of a route, with a host that the app accepts."""
        config = self.app.config
        allowed = config[PREFIX + "ALLOWED_HOSTS"] or config["TRUSTED_HOSTS"] or ()
        host = next((host.lstrip(".") for host in allowed), None) or config["SERVER_NAME"] or "localhost"
        adapter = self.app.url_map.bind(host, url_scheme=config["PREFERRED_URL_SCHEME"])
        return adapter.build(f"{self.blueprint}.{endpoint}", force_external=True)


def read_events_at_once(app: WSGIApplication, receive: Receive) -> WSGIApplication:
    """Wrap a WSGI app: pass each message of an event stream to ``receive`` as soon as the app writes or yields it.

    If ``receive`` raises, the app sees a closed connection, and the exception is raised once the app has returned.
    """

    def wsgi_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_stream, rest = False, b""
        parts: list[bytes] = []
        failures: list[BaseException] = []
        outside = copy_context()  # without the app's contexts, like a client in another process

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            nonlocal is_stream
            is_stream = Headers(headers).get("Content-Type", "").startswith(EVENT_STREAM)
            start_response(status, headers, exc_info)
            return write

        def write(part: bytes) -> None:
            nonlocal rest
            if not is_stream:
                parts.append(part)
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if line.startswith(b"data:") and not failures:
                    try:
                        outside.run(receive, json.loads(line[5:]))
                    except BaseException as error:  # pytest.fail() raises one
                        failures.append(error)
            if failures:
                raise BrokenPipeError("the test has stopped reading")

        try:
            body = app(environ, start)
            try:
                for part in body:
                    write(part)
            finally:
                if hasattr(body, "close"):
                    body.close()
        finally:
            for failure in failures:
                raise failure from failure.__cause__
        return parts

    return wsgi_app
