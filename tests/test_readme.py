"""Every Python and shell block of the README does what the text around it says."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from .servers import ROOT, Server, free_port

SERVER_COMMANDS = {"flask --app app run": 5000, "make serve": 8000}
"""The blocks that start a server, and the port their text promises."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def read_blocks() -> list[Block]:
    readme = (ROOT / "README.md").read_text()
    fences = re.finditer(r"^```(\w+)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return [Block(fence[1], fence[2].strip(), readme.count("\n", 0, fence.start()) + 1) for fence in fences]


BLOCKS = read_blocks()


def test_there_are_blocks_of_every_kind() -> None:
    """Were the pattern to miss them, nothing below would be tested."""
    assert {block.language for block in BLOCKS} == {"python", "sh", "json", "nginx", "text"}
    assert BLOCKS[0].language == "python"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=lambda b: f"line-{b.line}")
def test_a_python_block_runs(block: Block, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(block.text)
    result = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@contextmanager
def running(command: list[str], port: int, folder: Path, **env: str) -> Iterator[Server]:
    """Run a server until the block is left."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **env}, stdout=output, stderr=output)
    server = Server(process, port, log)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


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


def shell_blocks_after(command: str) -> list[tuple[Block, Block | None]]:
    """The blocks to try while this server runs, each with the JSON that is shown as its output."""
    start = next(number for number, block in enumerate(BLOCKS) if block.text == command)
    found = []
    for block, following in zip(BLOCKS[start + 1 :], [*BLOCKS[start + 2 :], None], strict=True):
        if block.text in SERVER_COMMANDS:
            break
        if block.language == "sh" and block.text != "make test":
            found.append((block, following if following is not None and following.language == "json" else None))
    return found


def try_blocks(command: str, port: int) -> None:
    blocks = shell_blocks_after(command)
    assert blocks
    for block, shown in blocks:
        text = block.text.replace(f"127.0.0.1:{SERVER_COMMANDS[command]}", f"127.0.0.1:{port}")
        result = subprocess.run(["bash", "-ec", text], capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, f"line {block.line}: {result.stderr}"
        output = json.loads(result.stdout)
        if shown is not None:
            assert output == json.loads(shown.text), f"line {block.line}"


def test_every_shell_block_belongs_to_a_server_or_is_tested_by_itself() -> None:
    tried = [block for command in SERVER_COMMANDS for block, _ in shell_blocks_after(command)]
    rest = [block.text for block in BLOCKS if block.language == "sh" and block not in tried]
    assert rest == ["flask --app app run", "make serve", "make test"]


def test_the_smallest_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(BLOCKS[0].text)
    port = free_port()
    command = [sys.executable, "-m", "flask", "--app", "app", "run", "--port", str(port)]
    with running(command, port, tmp_path):
        try_blocks("flask --app app run", port)


def test_make_serve_works_on_a_fresh_clone_and_again(clone: Path) -> None:
    for _ in range(2):
        port = free_port()
        with running(["make", "serve"], port, clone, PORT=str(port)):
            try_blocks("make serve", port)
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
