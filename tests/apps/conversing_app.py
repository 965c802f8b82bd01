"""An app that talks with its clients, for tests with real servers and real clients: it reports, asks and changes.

What its methods live through is told by empty files in the folder that ``NOTES`` names.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from flask import Flask, Response, g

from flask_jsonrpc_mcp import McpBlueprint, PromptMessage, current_call, mcp_tool

rpc = McpBlueprint()

PALETTE = ("green", "grey", "red")


def note(what: str) -> None:
    Path(os.environ["NOTES"], what).touch()


@rpc.method("count", streams=True)
@mcp_tool
def count(to: int, pause: float = 0) -> int:
    """Count, and tell of each number."""
    for number in range(1, to + 1):
        current_call.progress(number, to, f"{number} of {to}")
        current_call.log("info", f"counted {number}")
        threading.Event().wait(pause)
    return to


@rpc.method("spell")
@mcp_tool
def spell(word: str) -> Iterator[str]:
    """Spell a word, letter by letter."""
    yield from word


@rpc.method("stay")
@mcp_tool
def stay(key: str, busy: bool = False) -> Iterator[str]:
    """Stay until the client has left or cancelled the request."""
    g.key = key
    try:
        yield "here"
        while not current_call.cancelled:
            if busy:
                yield "still here"
            threading.Event().wait(0.01)
    finally:
        note(f"{key}-cancelled")


@rpc.method("greet")
@mcp_tool
def greet() -> str:
    """Greet the person at the client by the name that they give."""
    answer = current_call.elicit("What is your name?", {"name": Annotated[str, "Your first name"]})
    return f"Hello {answer.content['name']}" if answer.accepted else f"Hello, whoever you are ({answer.action})"


@rpc.method("delete")
@mcp_tool(confirm="Delete article {id}?", annotations={"destructiveHint": True})
def delete(id: int) -> str:
    """Delete an article."""
    return f"deleted {id}"


@rpc.method("change")
@mcp_tool
def change(what: str) -> int:
    """Tell everyone that something has changed; "add" and "remove" change the tools themselves."""
    if what == "add":
        rpc.add_method("added", mcp_tool(lambda: "here"), description="Be there for a while.")
    elif what == "remove":
        rpc.remove_method("added")
    else:
        rpc.notify_changed(what)
    return os.getpid()


@rpc.method("worker")
@mcp_tool
def worker() -> dict[str, int]:
    """Tell which worker this is, how many threads it has, and how much memory it has used at most."""
    return {
        "pid": os.getpid(),
        "threads": threading.active_count(),
        "kilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


@rpc.prompt("paint", title="Paint a wall")
def paint(color: str, wall: Annotated[str, "Which one"] = "north") -> list[PromptMessage]:
    """Say how a wall is painted."""
    return [PromptMessage(f"Paint the {wall} wall {color}."), PromptMessage("With pleasure.", "assistant")]


@rpc.completer("paint", "color")
def complete_color(value: str) -> list[str]:
    return [color for color in PALETTE if color.startswith(value)]


@rpc.resource("notes://today", mime_type="text/plain", title="Today")
def today() -> str:
    """What there is to do today."""
    return "Water the elms."


@rpc.resource("notes://{id}/data")
def note_data(id: int) -> dict[str, Any] | None:
    """A note as data."""
    return {"id": id, "words": 3} if id < 100 else None


@rpc.resource("notes://leaf", mime_type="image/png")
def leaf() -> bytes:
    """A picture of a leaf."""
    return b"\x89PNG leaf"


def create_app(**config: Any) -> Flask:
    app = Flask(__name__)
    app.config.from_mapping(SECRET_KEY="key", JSONRPC_MCP_SUBSCRIPTIONS=True)
    app.config.from_mapping(config)
    app.config.from_prefixed_env("CONVERSING")
    app.register_blueprint(rpc)

    @app.after_request
    def sign(response: Response) -> Response:
        response.headers["X-Worker"] = str(os.getpid())
        return response

    @app.teardown_request
    def tear_down(error: BaseException | None) -> None:
        if "key" in g:
            note(f"{g.key}-torn-down")

    return app
