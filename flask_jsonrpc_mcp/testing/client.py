"""`McpTestClient`: what a test uses to call the tools of an app."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from ..mcp.protocol import MODERN, VERSIONS
from .answers import Answers
from .mcp_face import Mcp
from .plain_faces import Face, JsonRpc, Rest
from .results import Result
from .wire import Wire, blueprints_of

MCP, JSONRPC, REST = FACES = ("mcp", "jsonrpc", "rest")

EVERYTHING: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""What a client can do for a method, all of it."""


@dataclass(frozen=True, repr=False)
class McpTestClient:
    """Calls what an app offers, in this process, by any face.

    ::

        def test_an_editor_can_write(app):
            editor = McpTestClient(app).as_user("editor", "editor")
            assert editor.call("articles.create", {"title": "Hello"}).value["title"] == "Hello"

    Clients never change: ``as_user``, ``with_token``, ``with_headers`` and ``over`` return another one.

    :param app: The app to test.
    :param face: ``"mcp"``, ``"jsonrpc"`` or ``"rest"``.
    :param version: The version of MCP to speak; the handshake of older ones happens by itself.
    :param blueprint: The name of the blueprint, where the app has several.
    :param headers: What to send with every request.
    :param capabilities: What this client says it can do for a method; by default everything, ``{}`` for nothing.
    :param http: A Flask test client to use, with its cookies; otherwise every request has a new one.
    """

    app: Flask
    face: str = MCP
    version: str = MODERN
    blueprint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=lambda: EVERYTHING)
    http: FlaskClient | None = None

    def __post_init__(self) -> None:
        if self.face not in FACES:
            raise ValueError(f"face must be one of {', '.join(map(repr, FACES))}, not {self.face!r}")
        if self.version not in VERSIONS:
            raise ValueError(f"version must be one of {', '.join(VERSIONS)}, not {self.version!r}")
        object.__setattr__(self, "blueprint", _chosen_blueprint(self.app, self.blueprint))

    def __repr__(self) -> str:
        # Without the headers: pytest shows this in the log of every failing test, and they may have passwords.
        version = f" {self.version}" if self.face == MCP else ""
        return f"<{type(self).__name__} of {self.app.name!r} on {self.face}{version}>"

    def as_user(self, username: str, password: str) -> McpTestClient:
        """Sign in with a name and a password, by HTTP Basic."""
        credentials = b64encode(f"{username}:{password}".encode()).decode()
        return self.with_headers({"Authorization": f"Basic {credentials}"})

    def with_token(self, token: str, scheme: str = "Bearer") -> McpTestClient:
        """Sign in with a token."""
        return self.with_headers({"Authorization": f"{scheme} {token}"})

    def with_headers(self, headers: Mapping[str, str]) -> McpTestClient:
        """Send these headers too, with every request."""
        return replace(self, headers={**self.headers, **headers})

    def over(self, face: str, *, version: str = MODERN) -> McpTestClient:
        """Use another face, or another version of MCP."""
        return replace(self, face=face, version=version)

    def call(self, name: str, arguments: Any = None, *, answers: Answers = None, listen: bool = False) -> Result:
        """Call a tool. Whatever happens is in the result; nothing is raised.

        :param arguments: By name; on JSON-RPC also by position, in a list.
        :param answers: What to answer when the method asks, by the key of the question: the fields of a form,
            ``"decline"`` or ``"cancel"``, the text that a model writes, a list of roots. Or a function that gets the
            key and the question. Versions before 2026-07-28 send no keys; there the answers go in their order.
        :param listen: Ask for the progress and the log of the method, on MCP. It runs in a thread of its own then, as
            for any client that asks for them.
        """
        return self._face.call(name, {} if arguments is None else arguments, answers, listen)

    def list_tools(self) -> list[dict[str, Any]]:
        """List the tools that this caller may use, all pages, as the face describes them.

        JSON-RPC lists methods, marked as tools or not, as an OpenRPC document has them.

        :raises CallFailed: when this caller may not list them.
        """
        return self._face.list_tools()

    def describe(self, name: str) -> dict[str, Any]:
        """Describe one tool.

        :raises AssertionError: when there is none, or none that this caller may use.
        """
        return self._face.describe(name)

    def list_prompts(self) -> list[dict[str, Any]]:
        """List the prompts that this caller may use, all pages."""
        return self._mcp.list("prompts/list", "prompts")

    def get_prompt(self, name: str, arguments: Any = None, *, answers: Answers = None) -> Result:
        """Get a prompt: its messages are the value, what they say is the text."""
        return self._mcp.get_prompt(name, {} if arguments is None else arguments, answers)

    def list_resources(self) -> list[dict[str, Any]]:
        """List the resources that this caller may read, all pages."""
        return self._mcp.list("resources/list", "resources")

    def list_resource_templates(self) -> list[dict[str, Any]]:
        """List the resources whose URIs have variables, all pages."""
        return self._mcp.list("resources/templates/list", "resourceTemplates")

    def read_resource(self, uri: str, *, answers: Answers = None) -> Result:
        """Read a resource: its value is a text, bytes, or what the JSON says."""
        return self._mcp.read_resource(uri, answers)

    def complete(
        self, reference: str, argument: str, value: str = "", *, context: Mapping[str, str] | None = None
    ) -> list[str]:
        """Complete what someone has begun to type.

        :param reference: The name of a prompt, or the URI of a resource with its variables.
        :param argument: Which argument or variable.
        :param value: What is typed so far.
        :param context: The other arguments, as far as they are known.
        :raises CallFailed: when there is nothing to complete.
        """
        # No name has a colon, and every URI has one.
        kind, member = ("ref/resource", "uri") if ":" in reference else ("ref/prompt", "name")
        return self._mcp.complete({"type": kind, member: reference}, {"name": argument, "value": value}, context or {})

    @cached_property
    def _face(self) -> Face:
        wire = Wire(self.app, self.blueprint, self.headers, self.http)
        if self.face == REST:
            return Rest(wire)
        if self.face == JSONRPC:
            return JsonRpc(wire)
        return Mcp.speaking(wire, self.version, self.capabilities)

    @property
    def _mcp(self) -> Mcp:
        if not isinstance(self._face, Mcp):
            raise ValueError(f"prompts and resources are for MCP; this client speaks {self.face!r}")
        return self._face


def _chosen_blueprint(app: Flask, name: str) -> str:
    names = list(blueprints_of(app))
    if not names:
        raise ValueError(f"the app {app.name!r} has no McpBlueprint; register one with app.register_blueprint")
    if name in names or (not name and len(names) == 1):
        return name or names[0]
    if name:
        raise ValueError(f"the app {app.name!r} has no McpBlueprint {name!r}; it has {', '.join(map(repr, names))}")
    raise ValueError(f"the app {app.name!r} has several: choose with blueprint={' or '.join(map(repr, names))}")
