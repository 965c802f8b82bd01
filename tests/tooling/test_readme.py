"""The code of README.md and sample_app/README.md does what the text around it says."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import (
    FLASK,
    PORTS,
    SAMPLE_SITE,
    Block,
    port_of,
    read_blocks,
    run_python,
    try_commands,
)
from tests.support.servers import ROOT, free_port, running

README = read_blocks(ROOT / "README.md")
SAMPLE_README = read_blocks(ROOT / "sample_app/README.md")
BLOCKS = [*README, *SAMPLE_README]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md", "sample_app/README.md"]
APP, SIGN_IN, *TESTS = [block.text for block in BLOCKS if block.language == "python"]


def test_there_are_blocks_of_every_kind() -> None:
    """Were the pattern to miss them, nothing below would be tested."""
    assert {block.language for block in README} == {"python", "sh", "json", "text"}
    assert {block.language for block in SAMPLE_README} == {"python", "sh", "json", "text"}
    assert len(TESTS) == 2


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 6_000


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
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def blocks_after(command: str, blocks: list[Block]) -> list[Block]:
    """The blocks to try while this server runs."""
    start = next(number for number, block in enumerate(blocks) if block.text == command)
    return list(itertools.takewhile(lambda block: port_of(block) is None, blocks[start + 1 :]))


def test_every_shell_block_belongs_to_a_server_or_is_tested_by_itself() -> None:
    tried = [*blocks_after(FLASK, README), *blocks_after(SAMPLE_SITE, SAMPLE_README)]
    rest = [block.text for block in BLOCKS if block.language == "sh" and block not in tried]
    assert rest == [FLASK, SAMPLE_SITE, "make test", SAMPLE_SITE]


def test_the_smallest_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    [start] = [block for block in README if block.text == FLASK]
    try_commands([start, *blocks_after(FLASK, README)], tmp_path)


def test_the_test_of_the_app_with_a_sign_in_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(app=SIGN_IN, test_app=TESTS[0])
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    pytester.makepyfile(app=SIGN_IN.replace('["publish content"]}', "[]}"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(failed=1)


def test_the_tests_of_the_sample_site_pass_and_test_something(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(
        """
        import pytest
        from sample_app import create_app
        from sample_app.db import current_engine
        from sample_app.seed import seed

        @pytest.fixture
        def app(tmp_path):
            database = f"sqlite:///{tmp_path}/site.sqlite3"
            app = create_app({"DATABASE_URL": database, "SECRET_KEY": "key", "TESTING": True})
            seed(app)
            yield app
            with app.app_context():
                current_engine().dispose()
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TESTS[1])
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=7)
    pytester.makepyfile(TESTS[1].replace("articles.create", "articles.delete"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=5, failed=2)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file(document: str) -> None:
    """Those to headings of the same page and to other sites are left out."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (ROOT / document).read_text())
    missing = [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()]
    assert missing == []


def test_make_serve_works_on_a_fresh_clone_and_again(clone: Path) -> None:
    for _ in range(2):
        port = free_port()
        with running(["make", "serve"], port, clone, env={"PORT": str(port)}):
            try_commands(blocks_after(SAMPLE_SITE, SAMPLE_README), clone, {PORTS[SAMPLE_SITE]: port})
        with pytest.raises(ConnectionRefusedError):  # what make has started ends with it
            socket.create_connection(("127.0.0.1", port))
    assert "SECURITY" not in (clone / "server.log").read_text()


def test_make_test_works_on_a_fresh_clone_and_again(clone: Path) -> None:
    """With a few of the tests, for these here are among the others."""
    env = {**os.environ, "PYTEST_ADDOPTS": "--cov-fail-under=0 tests/core/test_methods.py"}
    for _ in range(2):
        result = subprocess.run(["make", "test"], cwd=clone, env=env, capture_output=True, text=True, timeout=1500)
        assert result.returncode == 0, result.stdout + result.stderr
        assert " passed" in result.stdout


def test_the_commands_of_the_sample_site_work(tmp_path: Path) -> None:
    env = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path / 'site.sqlite3'}", "SECRET_KEY": "key"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    subprocess.run([sys.executable, "-m", "sample_app.seed"], cwd=ROOT, env=env, check=True, capture_output=True)
    commands = [
        line for block in SAMPLE_README for line in block.text.splitlines() if line.startswith("flask --app sample_app")
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
