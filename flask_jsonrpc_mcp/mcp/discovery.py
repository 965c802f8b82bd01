"""Describe the server to clients: ``/.well-known/mcp.json`` for the whole app, and a server card per blueprint."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from flask import Request, Response, current_app, url_for
from werkzeug.routing import BuildError

from ..auth import Caller
from ..config import server_name
from ..http import explorer
from ..http.io import json_response, make_page, page_response, rest_error
from ..http.rest import OPENAPI, has_openapi
from ..http.routes import ENDPOINTS, Route, own_url
from ..mailbox import announces_changes
from ..origins import host_name
from ..registry import EXTENSION, Registry
from ..strict_json import write
from .protocol import MODERN, VERSIONS
from .server import capabilities_of

CARD_TYPE = "application/mcp-server-card+json"
CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"


def well_known(request: Request, registry: Registry, caller: Caller) -> Response:
    """Describe the server: who it is, its URLs, and how to sign in. Open to everyone."""
    registries: dict[str, Registry] = current_app.extensions[EXTENSION]
    config = current_app.config
    document = {"name": server_name(current_app), "version": config["JSONRPC_MCP_SERVER_VERSION"]}
    if config["JSONRPC_MCP_INSTRUCTIONS"]:
        document["instructions"] = config["JSONRPC_MCP_INSTRUCTIONS"]
    for each in registries.values():
        if each.pending:
            each.load()
    described = (_describe_blueprint(name, each) for name, each in registries.items())
    document["servers"] = [server for server in described if server is not None]
    return json_response(document)


def server_card(request: Request, registry: Registry, caller: Caller) -> Response:
    """Describe the server as an MCP server card."""
    # Not request.host_url: werkzeug raises for a host such as xn--a, which is invalid punycode.
    host = host_name(request.host).lower() or "localhost"
    config, name = current_app.config, server_name(current_app)
    card = {
        "$schema": CARD_SCHEMA,
        # The schema demands a namespace in reverse-DNS order before the name.
        "name": f"{'.'.join(reversed(host.split('.')))}/{name}",
        "version": config["JSONRPC_MCP_SERVER_VERSION"],
        "title": name,
        "description": config["JSONRPC_MCP_INSTRUCTIONS"] or f"Tools of {name}",
        "remotes": [
            {
                "type": "streamable-http",
                "url": own_url("mcp", external=True),
                "supportedProtocolVersions": list(VERSIONS),
            }
        ],
    }
    return page_response(
        request,
        make_page(write(card)),
        registry,
        caller,
        config["JSONRPC_MCP_LIST_MAX_AGE"],
        mimetype=CARD_TYPE,
    )


def _describe_blueprint(name: str, registry: Registry) -> dict[str, Any] | None:
    endpoints = {**ENDPOINTS, "serverCard": "server_card"}
    if f"{name}.{explorer.ENDPOINT}" in current_app.view_functions:
        endpoints["explorer"] = explorer.ENDPOINT
    if has_openapi():
        endpoints["openapi"] = OPENAPI
    try:
        urls = {role: url_for(f"{name}.{endpoint}", _external=True) for role, endpoint in endpoints.items()}
    except BuildError:
        return None  # its url_prefix has variables
    # A URI template (RFC 6570).
    urls["tool"] = unquote(url_for(f"{name}.call_tool", name="{name}", _external=True))
    return {
        "name": name,
        "protocolVersions": list(VERSIONS),
        "capabilities": capabilities_of(registry, MODERN, announces_changes=announces_changes()),
        "endpoints": urls,
        "authentication": {
            "required": registry.auth.mcp_required,
            "schemes": registry.auth.schemes,
            **{member: value for each in registry.auth.sign_ins for member, value in each.describe(name).items()},
        },
    }


ROUTES = (Route("/mcp/server-card", "server_card", {"GET": server_card}, rest_error),)
WELL_KNOWN = Route("/.well-known/mcp.json", "jsonrpc_mcp_well_known", {"GET": well_known}, rest_error, open=True)
