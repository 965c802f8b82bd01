"""The OpenAPI document of the sample site under gunicorn, as tools of the field read it.

``make clients`` installs them: a validator, schemathesis, and a generator of typed clients.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import ROOT, Server, gunicorn, need_made

ADMIN = {"Authorization": "Bearer demo-admin-token"}
SLOW = "/tools/articles.report"
"""It takes as long as its argument says."""

ENVIRONMENT = ROOT / ".clients" / "openapi"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("openapi")
    env = {
        "DATABASE_URL": f"sqlite:///{folder / 'site.sqlite3'}",
        "SECRET_KEY": "key" * 16,
        "SITE_ENV": "development",
        "WEB_CONCURRENCY": "2",
    }
    with gunicorn("wsgi:app", folder, "--config", "sample_app/gunicorn_conf.py", env=env) as running:
        yield running


@pytest.fixture
def document(server: Server, tmp_path: Path) -> Path:
    file = tmp_path / "openapi.json"
    file.write_bytes(server.request("/mcp/openapi.json", headers=ADMIN).body)
    return file


def run(*command: str | Path, folder: Path, env: dict[str, str] | None = None) -> str:
    need_made(ENVIRONMENT / ".installed", "clients")
    program, *arguments = command
    ran = subprocess.run(
        [ENVIRONMENT / "bin" / program, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **(env or {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_it_is_valid_openapi_3_1(document: Path) -> None:
    assert json.loads(document.read_bytes())["openapi"] == "3.1.0"
    run("openapi-spec-validator", "--schema", "3.1", document, folder=document.parent)


def test_schemathesis_finds_nothing(server: Server, document: Path, tmp_path: Path) -> None:
    """Every answer to valid and invalid arguments, with and without credentials, is what the document says."""
    out = run(
        *(
            "schemathesis",
            "run",
            f"{server.url}/mcp/openapi.json",
            "--header",
            "Authorization: Bearer demo-admin-token",
        ),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "8", "--max-time", "40", "--seed", "1"),
        # OPTIONS answers before the caller is known, so its Allow must not depend on what a tool is.
        *("--exclude-checks", "allow_header_conformance", "--no-color"),
        *("--exclude-path", SLOW),
        folder=tmp_path,
    )
    paths = json.loads(document.read_bytes())["paths"]
    operations = sum(map(len, paths.values()))
    assert operations > 20
    assert f"{operations - len(paths[SLOW])} selected / {operations} total" in out


def test_a_generated_client_calls_the_site(server: Server, document: Path) -> None:
    folder = document.parent
    settings = folder / "settings.yaml"
    settings.write_text("post_hooks: []\n", encoding="utf-8")
    package = folder / "garden"
    run(
        *("openapi-python-client", "generate", "--path", document, "--output-path", package, "--meta", "none"),
        *("--config", settings, "--fail-on-warning"),
        folder=folder,
    )
    script = ROOT / "tests/clients/generated_client.py"
    seen = json.loads(run("python", script, f"{server.url}/mcp", folder=folder, env={"PYTHONPATH": str(folder)}))
    missing = seen.pop("missing")
    assert seen == {
        "created": ["Frost", True],
        "listed": ["Frost", 1, True],
        "read": "Cover the dahlias.",
        "deleted": True,
        "refused": "unauthorized",
    }
    assert (missing[0], missing[1].endswith("does not exist")) == ("not_found", True)
