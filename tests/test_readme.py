"""Every Python and shell block of the README does what the text around it says."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .documents import FLASK, PORTS, SAMPLE_SITE, Block, port_of, read_blocks, run_python, running, try_commands
from .servers import ROOT, free_port

BLOCKS = read_blocks(ROOT / "README.md")


def test_there_are_blocks_of_every_kind() -> None:
    """Were the pattern to miss them, nothing below would be tested."""
    assert {block.language for block in BLOCKS} == {"python", "sh", "json", "nginx", "text"}
    assert BLOCKS[0].language == "python"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=str)
def test_a_python_block_runs(block: Block, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_python(block, tmp_path)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git would give a newcomer, below a folder with spaces in its name."""
    folder = tmp_path_factory.mktemp("a fresh") / "flask jsonrpc mcp"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def blocks_after(command: str) -> list[Block]:
    """The blocks to try while this server runs."""
    start = next(number for number, block in enumerate(BLOCKS) if block.text == command)
    rest = itertools.takewhile(lambda block: port_of(block) is None, BLOCKS[start + 1 :])
    return [block for block in rest if block.text != "make test"]


def test_every_shell_block_belongs_to_a_server_or_is_tested_by_itself() -> None:
    tried = [*blocks_after(FLASK), *blocks_after(SAMPLE_SITE)]
    rest = [block.text for block in BLOCKS if block.language == "sh" and block not in tried]
    assert rest == [FLASK, SAMPLE_SITE, "make test"]


def test_the_smallest_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(BLOCKS[0].text)
    [start] = [block for block in BLOCKS if block.text == FLASK]
    try_commands([start, *blocks_after(FLASK)], tmp_path)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"])
def test_every_link_leads_to_a_file(document: str) -> None:
    """Those to headings of the same page and to other sites are left out."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / document).read_text())
    missing = [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()]
    assert missing == []


def test_make_serve_works_on_a_fresh_clone_and_again(clone: Path) -> None:
    for _ in range(2):
        port = free_port()
        with running(["make", "serve"], port, clone, PORT=str(port)):
            try_commands(blocks_after(SAMPLE_SITE), clone, {PORTS[SAMPLE_SITE]: port})
        with pytest.raises(ConnectionRefusedError):  # what make has started ends with it
            socket.create_connection(("127.0.0.1", port))
    assert "SECURITY" not in (clone / "server.log").read_text()


def test_make_test_works_on_a_fresh_clone_and_again(clone: Path) -> None:
    """With a few of the tests, for these here are among the others."""
    env = {**os.environ, "PYTEST_ADDOPTS": "--cov-fail-under=0 tests/test_methods.py"}
    for _ in range(2):
        result = subprocess.run(["make", "test"], cwd=clone, env=env, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stdout + result.stderr
        assert " passed" in result.stdout


def test_the_commands_of_the_sample_site_work(tmp_path: Path) -> None:
    env = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}", "SECRET_KEY": "key"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    subprocess.run([sys.executable, "-m", "sample_app.seed"], cwd=ROOT, env=env, check=True, capture_output=True)
    commands = [
        line for block in BLOCKS for line in block.text.splitlines() if line.startswith("flask --app sample_app")
    ]
    assert len(commands) >= 10
    for command in commands:
        ran = subprocess.run(["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True)
        assert ran.returncode == 0, command + ran.stderr


def test_the_pictures_show_what_the_commands_print() -> None:
    command = [sys.executable, "docs/pictures/draw.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_make_help_lists_the_targets(clone: Path) -> None:
    result = subprocess.run(["make"], cwd=clone, capture_output=True, text=True, check=True)
    for target in ("serve", "test", "lint", "format", "typecheck", "clean"):
        assert f"make {target} " in result.stdout
