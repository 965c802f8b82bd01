"""Real Flask apps with our blueprint under gunicorn, used by the official MCP client as a signed-in user.

Each app is in ``tests/host_apps``, and its framework in an environment of its own, which ``make host-apps`` installs.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.test_clients import PYTHON, PYTHON_LEGACY, McpClient
from tests.support.servers import ROOT, Server, free_port, need_made, running


def basic(username: str, password: str) -> str:
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


def by_password(server: Server, username: str) -> str:
    return basic(username, "a long secret")


def by_appbuilder(server: Server, username: str) -> str:
    signed_in = server.request(
        "/api/v1/security/login", data={"username": username, "password": "a long secret", "provider": "db"}
    )
    return f"Bearer {signed_in.json()['access_token']}"


def by_security(server: Server, username: str) -> str:
    signed_in = server.request(
        "/login?include_auth_token", data={"email": f"{username}@site.example", "password": "a long secret"}
    )
    token: str = signed_in.json()["response"]["user"]["authentication_token"]
    return token


@dataclass(frozen=True)
class HostApp:
    """An app whose administrator is ada, and whose other user is ben.

    :param sign_in: Returns what a user sends as ``Authorization``.
    :param page: A path of the framework, and a part of its response.
    :param environment: Where its framework is installed, if several share one.
    """

    name: str
    sign_in: Callable[[Server, str], str]
    page: tuple[str, str]
    env: dict[str, str] = field(default_factory=dict)
    environment: str = ""


APPS = [
    HostApp("smorest", by_password, ("/books/", "Emma")),
    HostApp("dash", by_password, ("/_dash-layout", "Books")),
    HostApp("appbuilder", by_appbuilder, ("/login/", "Sign In")),
    HostApp("security", by_security, ("/login", "Login")),
    HostApp(
        "mlflow",
        by_password,
        ("/version", "."),
        {
            "MLFLOW_AUTH_ADMIN_USERNAME": "ada",
            "MLFLOW_AUTH_ADMIN_PASSWORD": "a long secret",
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "key",
            # Or else MLflow refuses routes that it does not know to everyone but administrators.
            "MLFLOW_BASIC_AUTH_FAIL_CLOSED": "false",
        },
    ),
]


@contextmanager
def serve(app: HostApp, folder: Path) -> Iterator[Server]:
    environment = ROOT / ".host_apps" / (app.environment or app.name)
    need_made(environment / ".installed", "host-apps")
    port = free_port()
    command = [
        *(str(environment / "bin/python"), "-m", "gunicorn", f"tests.host_apps.{app.name}_site:app"),
        *("--bind", f"127.0.0.1:{port}", "--threads", "4", "--no-control-socket", "--pythonpath", str(ROOT)),
    ]
    env = {**os.environ, **app.env, "HOME": str(folder)}
    with running(command, port, folder, env=env) as server:
        yield server


@pytest.fixture(scope="module", params=APPS, ids=lambda app: app.name)
def hosted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[HostApp, Server]]:
    app: HostApp = request.param
    with serve(app, tmp_path_factory.mktemp(app.name)) as server:
        yield app, server


@pytest.mark.parametrize("client", [PYTHON, PYTHON_LEGACY], ids=["2026-07-28", "2025-11-25"])
def test_a_signed_in_user_works_with_the_tools_of_the_app(hosted: tuple[HostApp, Server], client: McpClient) -> None:
    app, server = hosted
    calls: list[tuple[str, Any]] = [("whoami", {}), ("wipe", {}), ("lend", {"book": "Emma"}), ("lend", {})]
    seen = client.visit(server, *calls, authorization=app.sign_in(server, "ben"))
    assert [tool["name"] for tool in seen["tools"]] == ["whoami", "lend"]
    who, hidden, expected, invalid = seen["results"]
    assert who["content"][0]["text"]
    assert hidden == {"error": -32602}  # a tool for administrators does not exist for anyone else
    assert (expected["isError"], expected["content"][0]["text"]) == (True, "Emma is already lent")
    assert (invalid["isError"], invalid["content"][0]["text"]) == (True, "Invalid arguments: /book: is required")
    seen = client.visit(server, ("wipe", {}), authorization=app.sign_in(server, "ada"))
    assert [tool["name"] for tool in seen["tools"]] == ["whoami", "wipe", "lend"]
    assert seen["results"][0]["content"][0]["text"] == "wiped"


def test_the_app_itself_works_as_before(hosted: tuple[HostApp, Server]) -> None:
    app, server = hosted
    path, expected = app.page
    headers = {"Authorization": by_password(server, "ada")} if app.sign_in is by_password else {}
    reply = server.request(path, headers=headers)
    assert (reply.status, expected in reply.body.decode()) == (200, True)


def test_wrong_credentials_are_refused(hosted: tuple[HostApp, Server]) -> None:
    _, server = hosted
    reply = server.invoke("whoami", {}, {"Authorization": basic("ada", "wrong")})
    assert reply.status == 401
