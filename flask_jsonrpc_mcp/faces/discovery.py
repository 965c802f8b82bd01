"""How a client finds us: ``/.well-known/mcp.json`` for the whole app, and a server card per blueprint."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from flask import Response, current_app, request, url_for
from werkzeug.routing import BuildError

from ..access import Caller
from ..changes import are_announced
from ..core import Core
from ..mcp.offers import capabilities_of
from ..mcp.protocol import MODERN, VERSIONS
from ..origins import host_name
from ..settings import server_name, setting
from ..strict_json import write
from . import explorer
from .responses import json_response, make_page, page_response, spell_error
from .routes import Route
from .urls import ENDPOINTS, own_url

EXTENSION = "jsonrpc_mcp"
"""Where an app keeps its blueprints of ours: ``app.extensions["jsonrpc_mcp"]``, cores by full blueprint name."""

CARD_TYPE = "application/mcp-server-card+json"
CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"


def well_known(core: Core, caller: Caller) -> Response:
    """Tell who we are, where everything is, and how to sign in. Open to everyone."""
    blueprints: dict[str, Core] = current_app.extensions[EXTENSION]
    document: dict[str, Any] = {"name": server_name(), "version": setting("SERVER_VERSION")}
    if setting("INSTRUCTIONS"):
        document["instructions"] = setting("INSTRUCTIONS")
    described = (_describe_blueprint(name, core) for name, core in blueprints.items())
    document["servers"] = [server for server in described if server is not None]
    return json_response(document)


def server_card(core: Core, caller: Caller) -> Response:
    """Tell the same facts as an MCP server card."""
    # Not request.host_url: werkzeug fails on a host such as xn--a, which decodes to nothing.
    host = host_name(request.host).lower() or "localhost"
    card = {
        "$schema": CARD_SCHEMA,
        # The card wants a namespace in reverse-DNS order before the name.
        "name": f"{'.'.join(reversed(host.split('.')))}/{server_name()}",
        "version": setting("SERVER_VERSION"),
        "title": server_name(),
        "description": setting("INSTRUCTIONS") or f"Tools of {server_name()}",
        "remotes": [
            {
                "type": "streamable-http",
                "url": own_url("mcp", external=True),
                "supportedProtocolVersions": list(VERSIONS),
            }
        ],
    }
    return page_response(make_page(write(card)), core, caller, setting("LIST_MAX_AGE"), mimetype=CARD_TYPE)


def _describe_blueprint(name: str, core: Core) -> dict[str, Any] | None:
    endpoints = {**ENDPOINTS, "serverCard": "server_card"}
    if f"{name}.{explorer.ENDPOINT}" in current_app.view_functions:
        endpoints["explorer"] = explorer.ENDPOINT
    try:
        urls = {role: url_for(f"{name}.{endpoint}", _external=True) for role, endpoint in endpoints.items()}
    except BuildError:
        return None  # its prefix has variables, so it is in as many places as these have values
    # A template in the manner of RFC 6570.
    urls["tool"] = unquote(url_for(f"{name}.call_tool", name="{name}", _external=True))
    return {
        "name": name,
        "protocolVersions": list(VERSIONS),
        "capabilities": capabilities_of(core, MODERN, announces_changes=are_announced()),
        "endpoints": urls,
        "authentication": {"required": core.require_auth, "schemes": core.authenticator.schemes},
    }


ROUTES = (Route("/mcp/server-card", "server_card", {"GET": server_card}, spell_error),)
WELL_KNOWN = Route("/.well-known/mcp.json", "jsonrpc_mcp_well_known", {"GET": well_known}, spell_error, open=True)
