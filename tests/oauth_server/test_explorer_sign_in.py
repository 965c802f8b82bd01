"""The explorer of an app that is its own authorization server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.oauth import FileGrants, OAuthServer
from tests.http.test_explorer import facts
from tests.support.browser import Explorer, chromium
from tests.support.servers import served_here

METADATA = "/.well-known/oauth-authorization-server"


def make_notes(folder: Path, **options: Any) -> Flask:
    """An app in which Ada is always signed in."""
    oauth = OAuthServer(scopes={"notes:read": "Read your notes"}, grants=FileGrants(folder / "grants"), **options)
    oauth.signed_in(lambda: "ada")
    rpc = McpBlueprint(auth=oauth.resource, require_auth=True)

    @rpc.tool(read_only=True)
    def list_notes() -> str:
        """List the notes of the user."""
        return f"the notes of {oauth.resource.current_user().id}"

    app = Flask(__name__)
    app.secret_key = "a key for tests, of more than 32 bytes"
    app.add_url_rule("/login", "login", lambda: "")
    app.register_blueprint(oauth)
    app.register_blueprint(rpc)
    return app


@pytest.mark.parametrize(("registration", "more"), [(True, {"metadata": METADATA}), (False, {})])
def test_the_page_knows_the_login_page_where_it_can_register(tmp_path: Path, registration: bool, more: Any) -> None:
    """Without registration, people paste an access token, as of any other authorization server."""
    page = make_notes(tmp_path, registration=registration).test_client().get("/mcp/explorer")
    way = {"kind": "token", "scheme": "Bearer", "header": "Authorization", "issuer": "http://localhost"}
    assert facts(page)["signIn"] == [way | more]


def test_the_explorer_renews_its_token(tmp_path: Path) -> None:
    app, renewed = make_notes(tmp_path, access_age=1), []

    @app.before_request
    def count() -> None:
        if request.path == "/oauth/token" and request.form["grant_type"] == "refresh_token":
            renewed.append(request.form["client_id"])

    with served_here(app) as place, chromium(tmp_path) as driver:
        page = Explorer(driver, f"http://127.0.0.1:{place.port}")
        page.open("#/tools/list_notes")
        page.press("Sign in", ".bar")
        page.press("Continue", "dialog")
        page._wait(lambda driver: len(driver.window_handles) == 2, "second window")
        [explorer, new] = driver.window_handles
        driver.switch_to.window(new)
        page.press("Allow")
        page._wait(lambda driver: driver.window_handles == [explorer], "first window alone")
        driver.switch_to.window(explorer)
        page.wait_for(".user", "ada")

        def run_again(driver: Any) -> bool:
            page.press("Run")
            assert page.wait_for(".outcome .status.good")
            return len(renewed) > 1

        page._wait(run_again, "token that was renewed twice")
        assert page.texts(".user") == ["Signed in as ada"]
