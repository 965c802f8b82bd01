"""Requests to an app in this process: one WSGI call each, in one thread.

A method that asks a client from before 2026-07-28 waits inside of the WSGI call for the answer, so each event is read
as soon as the app writes it, and the answer can be sent from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import Context, copy_context
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Flask, request
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers

from ..call import Call
from ..config import PREFIX
from ..errors import RpcError
from ..invoke import method_called
from ..method import Method
from ..registry import EXTENSION, Registry

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

EVENT_STREAM = "text/event-stream"

Message = dict[str, Any]

_OBSERVED = "flask_jsonrpc_mcp.testing"


@dataclass
class Observed:
    """What the signal `method_called` reported about the call of one request."""

    call: Call | None = None
    method: Method | None = None
    error: RpcError | None = None


@dataclass(frozen=True)
class Reply:
    """The response to one HTTP request.

    :param body: The parsed JSON; ``None`` if it is not JSON.
    """

    status: int
    headers: Headers
    body: Any
    observed: Observed


@dataclass(frozen=True)
class Transport:
    """Sends requests to one blueprint of an app, in this process.

    :param headers: Sent with every request, such as credentials.
    :param http: The test client to use; otherwise a new one for each request, without cookies.
    """

    app: Flask
    blueprint: str
    headers: Mapping[str, str]
    http: FlaskClient | None = None

    @property
    def registry(self) -> Registry:
        return blueprints_of(self.app)[self.blueprint]

    def send(
        self,
        endpoint: str,
        *,
        json: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        on_message: Callable[[Message], None] = lambda message: None,
    ) -> Reply:
        """GET one of the blueprint's routes, or POST JSON to it.

        :param on_message: Called with each message of an event stream before the response, as soon as it is sent.
        """
        observed = Observed()
        events = EventParser()
        streamed: list[Message] = []

        def observe(app: Flask, *, call: Call, method: Method | None, error: RpcError | None, **more: Any) -> None:
            # Other threads may be calling the same app.
            if request.environ.get(_OBSERVED) is observed:
                observed.call, observed.method, observed.error = call, method, error

        def receive(chunk: bytes) -> None:
            for message in events.parse(chunk):
                if "method" in message:
                    on_message(message)
                else:
                    streamed.append(message)

        path, base_url = self._locate(endpoint)
        with method_called.connected_to(observe, sender=self.app):
            response = self._client(receive).open(
                path,
                base_url=base_url,
                method="GET" if json is None else "POST",
                json=json,
                query_string=dict(query or {}),
                headers={**self.headers, **(headers or {})},
                environ_overrides={_OBSERVED: observed},
            )
        if response.mimetype == EVENT_STREAM:
            body = streamed[-1] if streamed else None
        else:
            body = response.get_json(silent=True)
        return Reply(response.status_code, response.headers, body, observed)

    def send_within(self, endpoint: str, *, json: Any, headers: Mapping[str, str] | None) -> Reply:
        """POST JSON while another request is being answered in this thread, with a ``flask.g`` of its own."""
        http = copy(self.http)
        if http is not None:
            # In a with block, the client would keep the contexts of this request open, and not of the other one.
            http.preserve_context = False
        other = Transport(self.app, self.blueprint, self.headers, http)
        return Context().run(other.send, endpoint, json=json, headers=headers)

    def _client(self, receive: Callable[[bytes], None]) -> FlaskClient:
        """Make a test client that passes on event streams while the app runs. The app itself is left as it is."""
        app = copy(self.app)
        app.wsgi_app = read_events_at_once(self.app, receive)  # type: ignore[method-assign, assignment]
        if self.http is None:
            return app.test_client()
        client = copy(self.http)  # with the same cookies
        client.application = app
        return client

    def _locate(self, endpoint: str) -> tuple[str, str]:
        """Find the path of a route, and a base URL whose host the app accepts."""
        config = self.app.config
        allowed = config[PREFIX + "ALLOWED_HOSTS"] or config.get("TRUSTED_HOSTS") or ()
        host = next((host.lstrip(".") for host in allowed), None) or config["SERVER_NAME"] or "localhost"
        adapter = self.app.url_map.bind(host, url_scheme=config["PREFERRED_URL_SCHEME"])
        url = urlsplit(adapter.build(f"{self.blueprint}.{endpoint}", force_external=True))
        return url.path, f"{url.scheme}://{url.netloc}{config['APPLICATION_ROOT']}"


def blueprints_of(app: Flask) -> Mapping[str, Registry]:
    """The McpBlueprints that are registered on an app, by name."""
    blueprints: Mapping[str, Registry] = app.extensions.get(EXTENSION, {})
    return blueprints


def read_events_at_once(app: WSGIApplication, receive: Callable[[bytes], None]) -> WSGIApplication:
    """Wrap a WSGI app: pass each part of an event stream to ``receive`` as soon as the app writes or yields it.

    werkzeug's test client keeps what is written until the app has returned. If ``receive`` raises, the app sees a
    closed connection, and the exception is raised once the app has returned.
    """

    def wsgi_app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_stream = False
        parts: list[bytes] = []
        failure: BaseException | None = None
        # The test's side runs outside of the app's contexts, like a client in another process.
        context = copy_context()

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            nonlocal is_stream
            is_stream = Headers(headers).get("Content-Type", "").startswith(EVENT_STREAM)
            start_response(status, headers, exc_info)
            return write

        def write(part: bytes) -> None:
            nonlocal failure
            if failure is None:
                try:
                    return context.run(receive if is_stream else parts.append, part)
                # BaseException, because pytest.fail() raises one.
                except BaseException as error:
                    failure = error
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
            if failure is not None:
                raise failure from failure.__cause__
        return parts

    return wsgi_app


class EventParser:
    """Parses the JSON messages of an event stream, which arrives in parts of any size."""

    _rest = b""

    def parse(self, chunk: bytes) -> Iterator[Message]:
        """Return the messages that are complete with this part of the stream."""
        *events, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            fields = (line.partition(b":")[::2] for line in event.split(b"\n"))
            data = b"\n".join(value.removeprefix(b" ") for name, value in fields if name == b"data")
            if data:
                yield json.loads(data)
