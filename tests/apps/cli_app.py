"""An app for the tests of the command line, in process and as ``flask --app tests.apps.cli_app``."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from flask import Flask, g, request
from flask_httpauth import HTTPBasicAuth

from flask_jsonrpc_mcp import (
    ImageContent,
    McpBlueprint,
    PromptMessage,
    RpcError,
    TextContent,
    ToolResult,
    current_call,
    mcp_tool,
)
from tests.conftest import PERMISSIONS, make_auth


@dataclass
class Period:
    start: datetime.date
    end: datetime.date | None = None


def make_blueprint(auth: HTTPBasicAuth | None = None) -> McpBlueprint:
    auth = auth or make_auth()
    rpc = McpBlueprint(auth=auth)

    @rpc.user_loader
    def find_user(name: str) -> str | None:
        return name if name in PERMISSIONS else None

    @rpc.method("stays.find")
    @mcp_tool(title="Find stays", annotations={"readOnlyHint": True})
    def find_stays(
        place: Annotated[str, "Where to go"],
        guests: Annotated[int, "How many people", {"minimum": 1, "maximum": 12}] = 2,
        price: float | None = None,
        pets: bool = False,
        rooms: list[str] | None = None,
        period: Period | None = None,
        order: Literal["price", "distance"] = "price",
    ) -> dict[str, Any]:
        """Find places to stay.

        The cheapest come first.
        """
        return {key: value for key, value in locals().items() if value is not None}

    @rpc.method("stays.cancel", access=["write"])
    @mcp_tool(annotations={"destructiveHint": True})
    def cancel(id: int) -> str:
        """Cancel a stay."""
        raise RpcError(f"Stay {id} has begun")

    @rpc.method("whoami")
    def whoami() -> dict[str, Any]:
        """Tell who is calling."""
        return {
            "user": auth.current_user(),
            "path": request.path,
            "prepared": g.get("prepared"),
        }

    @rpc.method("broken")
    @mcp_tool
    def broken() -> None:
        """Fail without expecting it."""
        raise ValueError("the reason")

    @rpc.method("picture")
    @mcp_tool
    def picture() -> ToolResult:
        """Draw."""
        return ToolResult(7, content=[TextContent("a \x1b[31mpicture"), ImageContent(b"png")])

    @rpc.method("text")
    @mcp_tool
    def text() -> str:
        """Say something in another colour."""
        return "first\n\x1b[31msecond\x9b31m\u202ethird"

    @rpc.method("count")
    @mcp_tool
    def count() -> int:
        """Count to two, aloud."""
        for number in (1, 2):
            current_call.progress(number, 2, f"at {number}")
        current_call.log("warning", "that was all", logger="counter")
        current_call.progress(3)
        return 2

    @rpc.method("delete")
    @mcp_tool(confirm="Delete {id}?")
    def delete(id: int) -> str:
        """Delete something."""
        return f"{id} deleted"

    @rpc.method("greet")
    @mcp_tool
    def greet() -> str:
        """Ask for a name, and greet."""
        answer = current_call.elicit("Who are you?", {"name": str, "age": int, "title": str | None})
        return "Hello {name}, {age}".format_map(answer.content) if answer.accepted else answer.action

    @rpc.method("sign")
    @mcp_tool
    def sign() -> str:
        """Let someone sign in elsewhere."""
        return current_call.elicit_url("Sign in", "https://site.example/sign-in").action

    @rpc.method("where")
    @mcp_tool
    def where() -> list[str]:
        """Tell where the caller works."""
        return [root.uri for root in current_call.roots()]

    @rpc.method("order")
    @mcp_tool
    def order() -> dict[str, Any]:
        """Ask for an order, and return it."""
        form = {
            "colors": Annotated[list[Literal["red", "green"]], "as many as you like"],
            "number": Annotated[int, {"minimum": 1, "default": 1}],
            "wrapped": bool | None,
        }
        answer = current_call.elicit("What would you like?", form)
        return dict(answer.content) if answer.accepted else {}

    @rpc.method("think")
    @mcp_tool
    def think() -> str:
        """Ask the model of the caller."""
        return current_call.sample("Why?").text

    @rpc.prompt("welcome")
    def welcome(guest: str, nights: int = 1, tone: Literal["warm", "cool"] = "warm") -> list[PromptMessage]:
        """Welcome a guest."""
        return [
            PromptMessage(f"Write a {tone} welcome for {guest}, who stays {nights + 0} nights."),
            PromptMessage(ImageContent(b"png"), role="assistant"),
        ]

    @rpc.completer("welcome", "guest")
    def complete_guest(value: str) -> list[str]:
        return [name for name in ("Ada", "Alan\x1b", "Grace") if name.startswith(value)]

    @rpc.resource("stays://all", name="all")
    def all_stays() -> str:
        """All stays."""
        return "Rome\x1b\nOslo"

    @rpc.resource("stays://{id}/photo", name="photo", mime_type="image/png", access=["write"])
    def photo(id: int) -> bytes | None:
        """The photo of a stay."""
        return b"png" if id == 7 else None

    return rpc


def create_app(**config: Any) -> Flask:
    app = Flask(__name__)
    app.config.update({"SECRET_KEY": "key", **config})
    app.register_blueprint(make_blueprint())

    @app.before_request
    def prepare() -> None:
        g.prepared = request.endpoint

    return app
