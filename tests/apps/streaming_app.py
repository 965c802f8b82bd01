"""An app whose methods run while their responses are sent, for tests under real servers.

A method goes on when the test makes a file in the folder that ``NOTES`` names, and tells by files in it what happens.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from flask import Flask, current_app, g

from flask_jsonrpc_mcp import McpBlueprint, current_call, mcp_tool
from flask_jsonrpc_mcp.levels import EXTENSION as WAITING

rpc = McpBlueprint()


def note(what: str, text: str = "") -> None:
    """Make a file, which is complete as soon as it is there."""
    unfinished = Path(os.environ["NOTES"], f"{what}.{threading.get_ident()}")
    unfinished.write_text(text)
    unfinished.replace(os.environ["NOTES"] + "/" + what)


def wait_for(what: str) -> None:
    while not Path(os.environ["NOTES"], what).exists():
        threading.Event().wait(0.01)


@rpc.method("steps", streams=True)
@mcp_tool
def steps(key: str) -> list[int]:
    """Report a step, wait, report another, and return the thread of the request and that of the method."""
    g.key = key
    current_call.progress(1, message="first")
    wait_for(f"{key}-go")
    current_call.progress(2, message="second")
    return [g.thread, threading.get_ident()]


@rpc.method("letters")
@mcp_tool
def letters(key: str) -> Iterator[str]:
    """Yield a letter, wait, and yield another."""
    g.key = key
    yield "a"
    wait_for(f"{key}-go")
    yield "b"


@rpc.method("together")
@mcp_tool
def together(key: str) -> list[int]:
    """Report two steps, in an ordinary method."""
    g.key = key
    current_call.progress(1, message="first")
    current_call.progress(2, message="second")
    return [g.thread, threading.get_ident()]


@rpc.method("silent", streams=True)
@mcp_tool
def silent(key: str) -> str:
    """Report nothing, and look at nothing, until the test says go."""
    wait_for(f"{key}-go")
    return "done"


@rpc.method("stay", streams=True)
@mcp_tool
def stay(key: str) -> str:
    """Report once, and stay until the client has left."""
    g.key = key
    current_call.progress(1)
    while not current_call.cancelled:
        threading.Event().wait(0.01)
    note(f"{key}-cancelled")
    return key


@rpc.method("numbers")
@mcp_tool
def numbers(key: str) -> Iterator[int]:
    """Yield numbers without end, and without a look at whether the client has left."""
    g.key = key
    number = 0
    try:
        while True:
            yield (number := number + 1)
            threading.Event().wait(0.001)  # waitress looks at a connection only between the writes to it
    finally:
        note(f"{key}-cancelled")


@rpc.method("async_numbers")
@mcp_tool
async def async_numbers(key: str) -> AsyncIterator[int]:
    """Yield the same numbers from an asynchronous generator."""
    for number in numbers(key):
        yield number


@rpc.method("flood", streams=True)
@mcp_tool
def flood(key: str, reports: int) -> str:
    """Report 64 kB each time, and note how many reports were sent."""
    g.key = key
    for number in range(1, reports + 1):
        current_call.progress(number, message="x" * 65536)
        note(f"{key}-sent", str(number))
    return "flooded"


@rpc.method("change")
@mcp_tool
def change() -> None:
    """Tell those who listen that the tools have changed."""
    rpc.notify_changed("tools")


@rpc.method("peak")
@mcp_tool
def peak() -> int:
    """Return how many kilobytes of memory this process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@rpc.method("waiting")
@mcp_tool
def waiting() -> int:
    """Return how many threads of this process wait for a client."""
    return len(current_app.extensions.get(WAITING, ()))


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.update(SECRET_KEY="key", JSONRPC_MCP_SUBSCRIPTIONS=True, JSONRPC_MCP_MAX_WAITING=2)
    app.config["JSONRPC_MCP_MAILBOX"] = os.environ["NOTES"] + "/mail"
    app.register_blueprint(rpc)

    @app.before_request
    def begin() -> None:
        g.thread = threading.get_ident()

    @app.teardown_request
    def tear_down(error: BaseException | None) -> None:
        if "key" in g:
            own, again = g.thread == threading.get_ident(), Path(os.environ["NOTES"], f"{g.key}-torn-down").exists()
            note(f"{g.key}-torn-down{'-again' if again else ''}", f"error={error!r} own_thread={own}")

    return app


app: Any = create_app()
