"""The way from a test to the app: one request by the app's own test client, and what the app tells of it meanwhile.

No face puts everything on the wire: MCP shows a failing tool as a text, REST has no JSON-RPC codes. The app tells the
rest by the signal `method_called`, in this process, and so one record can be filled for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, request
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers

from ..calls import METHOD, Call
from ..core import Core
from ..dispatcher import method_called
from ..errors import RpcError
from ..faces.discovery import EXTENSION
from ..methods import Method
from ..settings import PREFIX

EVENT_STREAM = "text/event-stream"

_HEARD = "flask_jsonrpc_mcp.testing"
_ELSEWHERE = "192.0.2.1"
"""An address of no machine. A request from this one would have to name it as localhost, whatever the app is called."""

Message = dict[str, Any]


@dataclass
class Heard:
    """What the app told of a call while it ran."""

    call: Call | None = None
    method: Method | None = None
    error: RpcError | None = None

    @property
    def is_of_a_method(self) -> bool:
        return self.call is not None and self.call.kind == METHOD


@dataclass(frozen=True)
class Reply:
    """What came back.

    :param body: The answer as JSON; ``None`` when it is none.
    """

    status: int
    headers: Headers
    body: Any
    heard: Heard = field(default_factory=Heard)


@dataclass(frozen=True)
class Wire:
    """A blueprint of an app, and how to reach it.

    :param headers: What goes with every request, such as credentials.
    :param http: The test client to use; otherwise a new one each time, without cookies.
    """

    app: Flask
    blueprint: str
    headers: Mapping[str, str]
    http: FlaskClient | None = None

    @property
    def core(self) -> Core:
        core: Core = blueprints_of(self.app)[self.blueprint]
        return core

    def send(
        self,
        endpoint: str,
        *,
        json: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        on_message: Callable[[Message], None] = lambda message: None,
    ) -> Reply:
        """GET one of our routes, or POST JSON to it.

        :param on_message: Called with everything that comes before the answer.
        """
        heard = Heard()

        def hear(app: Flask, *, call: Call, method: Method | None, error: RpcError | None, **more: Any) -> None:
            # Other threads may be calling the same app.
            if request.environ.get(_HEARD) is heard:
                heard.call, heard.method, heard.error = call, method, error

        http = self.app.test_client() if self.http is None else self.http
        base_url, path = self._place(endpoint)
        with method_called.connected_to(hear, sender=self.app):
            response = http.open(
                path,
                base_url=base_url,
                method="GET" if json is None else "POST",
                json=json,
                query_string=dict(query or {}),
                headers={**self.headers, **(headers or {})},
                environ_overrides={_HEARD: heard, **self._peer},
            )
            with response:
                if response.mimetype == EVENT_STREAM:
                    body = _answer_among(read_events(response.iter_encoded()), on_message)
                else:
                    body = response.get_json(silent=True)
            return Reply(response.status_code, response.headers, body, heard)

    def _place(self, endpoint: str) -> tuple[str, str]:
        """Where a route of the blueprint is: below which URL, and the path there."""
        config = self.app.config
        adapter = self.app.url_map.bind(self._host, url_scheme=config["PREFERRED_URL_SCHEME"])
        url = urlsplit(adapter.build(f"{self.blueprint}.{endpoint}", force_external=True))
        return f"{url.scheme}://{url.netloc}{config['APPLICATION_ROOT']}", url.path

    @property
    def _host(self) -> str:
        """A name to which this app answers."""
        named = next((host for host in self._allowed_hosts if not host.startswith(".")), None)
        return named or self.app.config["SERVER_NAME"] or "localhost"

    @property
    def _allowed_hosts(self) -> list[str]:
        config = self.app.config
        return list(config[PREFIX + "ALLOWED_HOSTS"] or config.get("TRUSTED_HOSTS") or ())

    @property
    def _peer(self) -> dict[str, str]:
        return {} if self._allowed_hosts or self._host == "localhost" else {"REMOTE_ADDR": _ELSEWHERE}


def blueprints_of(app: Flask) -> Mapping[str, Core]:
    """The blueprints of ours that an app has registered, by name."""
    blueprints: Mapping[str, Core] = app.extensions.get(EXTENSION, {})
    return blueprints


def read_events(chunks: Iterable[bytes]) -> Iterator[Message]:
    """Read the JSON messages of an event stream, each as soon as it is there."""
    lines, rest = [], b""
    for chunk in chunks:
        *complete, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        for line in complete:
            if line:
                lines.append(line)
                continue
            fields = (line.partition(b":")[::2] for line in lines)
            text = b"\n".join(value.removeprefix(b" ") for name, value in fields if name == b"data")
            lines = []
            if text:
                yield json.loads(text)


def _answer_among(messages: Iterable[Message], on_message: Callable[[Message], None]) -> Message | None:
    answer = None
    for message in messages:
        if "method" in message:
            on_message(message)
        else:
            answer = message
    return answer
