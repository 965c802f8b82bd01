"""Calls an app in this process, with no network, and prints the CPU time of one call.

`in_process` starts it in the environment of each contender and tells it what to call, so it needs nothing but Python.
For each line of its input, a number of calls, it prints the microseconds of CPU time that one of them took.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
Call = Callable[[dict[str, str], bytes], Awaitable[Answer]]

ADDRESS = "127.0.0.1:8000"


def wsgi_call(app: Any, url: str) -> Call:
    """Make the function that calls a WSGI app as gunicorn does."""
    parts = urlsplit(url)
    host, port = ADDRESS.split(":")

    async def call(headers: dict[str, str], body: bytes) -> Answer:
        environ = {
            "REQUEST_METHOD": "POST" if body else "GET",
            "SCRIPT_NAME": "",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "SERVER_NAME": host,
            "SERVER_PORT": port,
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": host,
            "HTTP_HOST": ADDRESS,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        environ.update({"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()})
        started: list[Any] = []
        answer = app(environ, lambda status, headers, *rest: started.extend((status, headers)))
        try:
            content = b"".join(answer)
        finally:
            if hasattr(answer, "close"):
                answer.close()
        return int(started[0][:3]), {name.lower(): value for name, value in started[1]}, content

    return call


def asgi_call(app: Any, url: str) -> Call:
    """Make the function that calls an ASGI app as uvicorn does."""
    parts = urlsplit(url)

    async def call(headers: dict[str, str], body: bytes) -> Answer:
        given = {"host": ADDRESS, "content-type": "application/json", "content-length": str(len(body)), **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }
        sent: list[Any] = []
        received = False

        async def receive() -> dict[str, Any]:
            nonlocal received
            if received:
                await asyncio.Future()  # the client stays
            received = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await app(scope, receive, send)
        answered = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:])

    return call


async def start_up(app: Any) -> None:
    """Tell an ASGI app that the server has started, and let it run on."""
    started = asyncio.Event()
    messages = iter([{"type": "lifespan.startup"}])

    async def receive() -> Any:
        for message in messages:
            return message
        return await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        assert message["type"] == "lifespan.startup.complete", message
        started.set()

    running.append(asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)))
    await started.wait()


running: list[Any] = []


async def serve(asked: dict[str, Any]) -> None:
    module, _, name = asked["app"].partition(":")
    app = getattr(importlib.import_module(module), name)
    if asked["is_asgi"]:
        await start_up(app)
    call = (asgi_call if asked["is_asgi"] else wsgi_call)(app, asked["path"])
    headers, body = asked["headers"], asked["body"].encode()
    if asked["initialize"]:
        opening = {name: value for name, value in headers.items() if name != "MCP-Protocol-Version"}
        status, answered, content = await call(opening, asked["initialize"].encode())
        assert status == 200, content
        if "mcp-session-id" in answered:
            headers = {**headers, "Mcp-Session-Id": answered["mcp-session-id"]}
    status, _, content = await call(headers, body)
    assert status == 200, (status, content)
    assert asked["expected"] in content.decode(), content
    print("ready", flush=True)
    for line in sys.stdin:
        times = int(line)
        started = time.process_time()
        for _ in range(times):
            await call(headers, body)
        print((time.process_time() - started) / times * 1e6, flush=True)


def main() -> None:
    asked = json.loads(sys.argv[1])
    if asked["is_asgi"]:
        importlib.import_module("uvloop").install()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(serve(asked))


if __name__ == "__main__":
    main()
