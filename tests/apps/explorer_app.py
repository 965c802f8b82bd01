"""The app of the explorer's tests: a travel agency with a tool for each kind of argument and result."""

from __future__ import annotations

import base64
import collections
import datetime
import threading
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

from flask import Flask
from flask_httpauth import HTTPDigestAuth, HTTPTokenAuth, MultiAuth

from flask_jsonrpc_mcp import (
    AudioContent,
    ImageContent,
    McpBlueprint,
    PromptMessage,
    ResourceLink,
    RpcError,
    TextContent,
    ToolResult,
    current_call,
    mcp_tool,
)
from tests.conftest import make_auth, make_token_auth

READ_ONLY = {"readOnlyHint": True}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkaPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
SOUND = (
    b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00"
    b"data\x02\x00\x00\x00\x80\x80"
)
BEYOND_JAVASCRIPT = 9_007_199_254_740_993

rpc = McpBlueprint(auth=MultiAuth(make_auth(), make_token_auth()))


class Board(Enum):
    """What is served."""

    NONE = "none"
    BREAKFAST = "breakfast"
    HALF = "half"


@dataclass(frozen=True)
class Period:
    """When."""

    start: datetime.date
    end: Annotated[datetime.date | None, "Open when left out"] = None


@dataclass(frozen=True)
class Guest:
    """Who."""

    name: Annotated[str, "As in the passport", {"minLength": 1, "maxLength": 40}]
    age: Annotated[int, {"minimum": 0, "maximum": 130}]
    vegetarian: bool = False


@dataclass(frozen=True)
class Trip:
    """A booked trip."""

    id: int
    arguments: dict[str, Any] = field(default_factory=dict)


@rpc.method("trips.book")
@mcp_tool(title="Book a trip", annotations={"destructiveHint": False})
def book(
    period: Annotated[Period, "The days of the trip"],
    guests: Annotated[list[Guest], "Everyone who comes along", {"minItems": 1, "maxItems": 4}],
    board: Annotated[Board, "What is served"] = Board.BREAKFAST,
    tags: Annotated[list[Literal["sea", "hills", "city"]], "What it is about"] = [],  # noqa: B006
    pickup: Annotated[datetime.datetime | None, "When to be fetched"] = None,
    budget: Annotated[float | None, "In euros"] = None,
    labels: Annotated[dict[str, str] | None, "Notes of your own"] = None,
    note: str = "",
) -> dict[str, Any]:
    """Book a trip for up to four people, and return what was booked."""
    return {
        "period": {"start": period.start, "end": period.end},
        "guests": [vars(guest) for guest in guests],
        "board": board,
        "tags": tags,
        "pickup": pickup,
        "budget": budget,
        "labels": labels,
        "note": note,
    }


TREE = {
    "type": "object",
    "properties": {
        "place": {"$ref": "#/$defs/place"},
        "number": {"type": "integer"},
        "contact": {
            "anyOf": [
                {"type": "string", "format": "email", "title": "E-mail"},
                {
                    "title": "Phone",
                    "type": "object",
                    "properties": {"number": {"type": "string"}},
                    "required": ["number"],
                },
            ]
        },
        "anything": {},
    },
    "required": ["place"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 40},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


@rpc.method("trips.echo", params=TREE)
@mcp_tool(annotations=READ_ONLY)
def echo(arguments: Any) -> Any:
    """Return what was sent."""
    return arguments


@rpc.method("trips.cancel", access=["write", "administer"])
@mcp_tool(title="Cancel a trip", annotations={"destructiveHint": True, "idempotentHint": True})
def cancel(id: uuid.UUID) -> bool:
    """Cancel a trip for good."""
    return True


@rpc.method("trips.unsaid")
@mcp_tool
def unsaid() -> str:
    """Say nothing of what it does."""
    return "done"


@rpc.method("trips.route")
@mcp_tool(annotations=READ_ONLY)
def route(region: Annotated[str, {"x-mcp-header": "Region"}], seats: int = 1) -> list[Any]:
    """Go by a header."""
    return [region, seats]


@rpc.method("shows.everything")
@mcp_tool(title="Every kind of content", annotations=READ_ONLY)
def show_everything() -> ToolResult:
    """Return one block of each kind."""
    return ToolResult(
        {"id": BEYOND_JAVASCRIPT, "markup": "<b>bold</b><script>document.title = 'broken into'</script>"},
        content=[
            TextContent("Some <b>text</b>"),
            ImageContent(PIXEL),
            AudioContent(SOUND),
            ResourceLink("https://site.example/report.pdf", name="Report"),
            ResourceLink("javascript:alert(1)", name="Trap"),
        ],
    )


@rpc.method("shows.hotels")
@mcp_tool(title="List hotels", annotations=READ_ONLY)
def hotels(count: int = 3) -> list[dict[str, Any]]:
    """Return objects with members of every kind."""
    return [
        {
            "id": number,
            "name": f"Hotel <i>{number}</i>",
            "stars": None if number == 1 else number % 5,
            "pool": number % 2 == 0,
            "near": ["sea", "station"],
            "address": {"street": "Long Lane", "number": number},
            "praise": "Quiet rooms. " * (1 if number == 1 else 50),
            "manager": f"manager-{number}@a-very-long-domain-name.example",
        }
        for number in range(1, count + 1)
    ]


@rpc.method("shows.page")
@mcp_tool(annotations=READ_ONLY)
def page_of_hotels() -> dict[str, Any]:
    """Return a list of objects and facts about it."""
    return {"items": [{"id": 1}, {"id": 2, "name": "Sea View"}], "total": 9, "next": None}


@rpc.method("shows.letter")
@mcp_tool(annotations=READ_ONLY)
def letter(lines: int) -> str:
    """Return a long text."""
    return "\n".join(f"Line {number}" for number in range(1, lines + 1))


@rpc.method("shows.failure")
@mcp_tool(annotations=READ_ONLY)
def fail() -> None:
    """Fail."""
    raise RpcError("The <i>agency</i> is closed")


@rpc.method("hostile")
@mcp_tool(title="<img src=x onerror=\"document.title='broken into'\">", annotations=READ_ONLY)
def hostile(name: Annotated[str, "<script>document.title=1</script>"] = "</script><b>") -> str:
    """</script><script>document.title='broken into'</script>"""
    return name


class Job:
    """Work that goes on when it is told to, so that a test can look at it meanwhile."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.was_cancelled = threading.Event()


jobs: dict[str, Job] = collections.defaultdict(Job)


@rpc.method("jobs.pack", streams=True)
@mcp_tool(title="Pack a suitcase", annotations={"destructiveHint": False})
def pack(suitcase: str) -> str:
    """Report how far it is, and go on when told to."""
    current_call.progress(1, 4, "Shirts")
    current_call.log("info", "The suitcase is small")
    current_call.progress(3, 4, "Shoes <b>and</b> socks")
    job = jobs[suitcase]
    while not job.go_on.wait(0.05):
        if current_call.cancelled:
            job.was_cancelled.set()
            return "nobody waits"
    return "packed"


@rpc.method("jobs.recite", streams=True)
@mcp_tool(title="Recite a long poem", annotations=READ_ONLY)
def recite(poem: str, lines: int) -> str:
    """Report very often, and go on when told to."""
    for number in range(1, lines + 1):
        current_call.progress(number, lines, f"Line {number} of a poem that takes no end")
    jobs[poem].go_on.wait(60)
    return "recited"


@rpc.method("jobs.go_on")
def go_on(suitcase: str) -> None:
    jobs[suitcase].go_on.set()


@rpc.method("jobs.was_cancelled")
def was_cancelled(suitcase: str) -> bool:
    return jobs[suitcase].was_cancelled.wait(60)


@rpc.method("asks.seat")
@mcp_tool(annotations=READ_ONLY)
def ask_for_seat() -> Any:
    """Ask where to sit."""
    answer = current_call.elicit(
        "Where do you want to sit?",
        {"row": Annotated[int, {"minimum": 1, "maximum": 30}], "seat": Literal["window", "aisle"]},
    )
    return {"action": answer.action, "content": answer.content}


@rpc.method("asks.page")
@mcp_tool(annotations=READ_ONLY)
def ask_to_open() -> str:
    """Ask to open a page."""
    return current_call.elicit_url("Pay there.", "https://pay.example/now").action


@rpc.method("asks.first")
@mcp_tool(annotations={"destructiveHint": True}, confirm="Really go to {place}?")
def ask_first(place: str) -> str:
    """Ask before it runs."""
    return f"gone to {place}"


@rpc.prompt("letters.thank", title="Thank someone")
def thank(name: Annotated[str, "Who is thanked"], tone: str = "warm") -> list[PromptMessage]:
    """Write a letter."""
    return [PromptMessage(f"Thank {name} in a {tone} tone."), PromptMessage("Gladly.", role="assistant")]


@rpc.completer("letters.thank", "name")
def complete_name(value: str) -> list[str]:
    return [name for name in ("Ada", "Adele", "Bob") if name.startswith(value)]


@rpc.resource("agency://motto", title="Our motto", mime_type="text/plain")
def motto() -> str:
    """What we live by."""
    return "Go <b>far</b>."


@rpc.resource("agency://stamp", mime_type="image/png")
def stamp() -> bytes:
    """A very small stamp."""
    return PIXEL


@rpc.resource("agency://trips/{id}", title="A trip")
def trip(id: str) -> dict[str, str]:
    """A trip by its id."""
    return {"id": id}


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.update(SECRET_KEY="key", JSONRPC_MCP_SERVER_NAME="agency", JSONRPC_MCP_PAGE_SIZE=6)
    app.register_blueprint(rpc)
    many = McpBlueprint("many", url_prefix="/many")
    for number in range(1000):
        many.add_method(
            f"shelf{number % 20}.book{number}", mcp_tool(lambda: "read"), description=f"Read book {number}."
        )
    app.register_blueprint(many)
    closed = McpBlueprint("closed", url_prefix="/closed", auth=make_auth(), require_auth=True)
    closed.add_method("secret", mcp_tool(lambda: "kept"))
    app.register_blueprint(closed)
    keys = HTTPTokenAuth(header="X-Key")
    keys.verify_token(lambda token: "robot" if token == "key" else None)
    keyed = McpBlueprint("keyed", url_prefix="/keyed", auth=keys, require_auth=True)
    keyed.add_method("keyed", mcp_tool(lambda: "in"))
    app.register_blueprint(keyed)
    app.register_blueprint(McpBlueprint("digest", url_prefix="/digest", auth=HTTPDigestAuth(), require_auth=True))
    return app
