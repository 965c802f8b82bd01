"""An app whose methods do everything that a call can end in, for `soak`."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from flask import Flask
from flask_httpauth import HTTPBasicAuth

from flask_jsonrpc_mcp import CachedPasswords, McpBlueprint, RpcError, ToolResult, current_call, mcp_tool

auth = HTTPBasicAuth()
rpc = McpBlueprint(auth=auth)
check_password = CachedPasswords(lambda stored, given: stored == given)
kept: list[object] = []


@auth.verify_password  # type: ignore[untyped-decorator]
def verify(username: str, password: str) -> str | None:
    return username if check_password(username, password) else None


@rpc.method("echo", max_age=60)
@mcp_tool(title="Echo", annotations={"readOnlyHint": True})
def echo(text: str, times: int = 1) -> list[str]:
    """Return the text, so many times."""
    return [text] * times


@rpc.method("counted", timeout=60)
@mcp_tool
def counted() -> Iterator[int]:
    """Count, within a time limit, which takes a thread of its own."""
    yield from range(3)


@rpc.method("reported")
@mcp_tool
def reported() -> int:
    """Tell how far it is, to clients that want to know."""
    for number in range(3):
        current_call.progress(number, 3)
        current_call.log("info", {"number": number})
    return 3


@rpc.method("asked")
@mcp_tool
def asked() -> bool:
    """Ask a person, where that is possible."""
    return current_call.elicit("Really?", {"sure": bool}).accepted


@rpc.prompt("written")
def written(topic: str) -> str:
    """Ask a model to write."""
    return f"Write about {topic}."


@rpc.resource("texts://{name}")
def text(name: str) -> str | None:
    """One text."""
    return None if name == "none" else "text"


@rpc.method("shown")
@mcp_tool
def shown() -> ToolResult:
    """Show a text."""
    return ToolResult({"a": 1}, content=["text"])


@rpc.method("refuse")
@mcp_tool
def refuse() -> None:
    """Fail as expected."""
    raise RpcError("no", data={"why": "because"})


@rpc.method("crash")
@mcp_tool
def crash() -> None:
    """Fail as nobody expected."""
    raise ValueError("a bug")


@rpc.method("lie")
@mcp_tool
def lie() -> int:
    """Return what was not declared."""
    return "text"  # type: ignore[return-value]


@rpc.method("leak")
@mcp_tool
def leak() -> None:
    """Keep one object for each call, to show that it would be seen."""
    kept.append(object())


# Before Flask finds no handler, and adds one that prints.
logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())
logger.propagate = False

app = Flask(__name__)
app.secret_key = "soak"  # noqa: S105 (nothing to hide)
app.register_blueprint(rpc)
