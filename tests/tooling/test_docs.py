"""The documentation: its code does what the text around it says, and its tables are complete."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType

import pytest

import flask_jsonrpc_mcp
from flask_jsonrpc_mcp import doctor, oauth, openapi, testing
from flask_jsonrpc_mcp.config import DEFAULTS, PREFIX
from flask_jsonrpc_mcp.telemetry import audit, audit_table, metrics, tracing
from tests.support.documents import Block, read_blocks, run_python, try_commands
from tests.support.servers import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCKS = {page.stem: read_blocks(page) for page in PAGES}


def blocks_in(language: str) -> list[Block]:
    return [block for blocks in BLOCKS.values() for block in blocks if block.language == language]


def test_there_are_blocks_of_every_kind() -> None:
    """Were the pattern to miss them, nothing below would be tested."""
    fences = sum(len(re.findall(r"^ *```", page.read_text(), re.MULTILINE)) for page in PAGES)
    directives = sum(len(re.findall(r"^ *```\{(?!code-block)", page.read_text(), re.MULTILINE)) for page in PAGES)
    assert fences / 2 - directives == sum(map(len, BLOCKS.values()))
    languages = {block.language for blocks in BLOCKS.values() for block in blocks}
    assert languages == {"python", "sh", "json", "html", "nginx", "php", "text"}


@pytest.mark.parametrize("block", [block for block in blocks_in("python") if not block.file], ids=str)
def test_a_python_block_runs(
    block: Block, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(block, tmp_path)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if any(b.language == "sh" for b in blocks)])
def test_the_commands_of_a_page_work_in_an_empty_folder(page: str, tmp_path: Path) -> None:
    try_commands(BLOCKS[page], tmp_path)


def test_every_file_is_there_for_a_command() -> None:
    for page, blocks in BLOCKS.items():
        commands = [number for number, block in enumerate(blocks) if block.language == "sh"]
        for number, block in enumerate(blocks):
            assert not block.file or number < max(commands, default=0), f"{page}: nothing uses {block}"


def test_extras_exist_and_are_installed_by_name() -> None:
    """Only the first installation, from a checkout, has a path: pip then knows the package by its name."""
    pages = "\n".join(page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    named = re.findall(r"([\w./-]*flask[_-]jsonrpc[_-]mcp)\[([\w,-]+)\]", pages)
    assert {place for place, _ in named} == {"flask-jsonrpc-mcp", "/path/to/flask_jsonrpc_mcp"}
    extras = {extra for _, extras in named for extra in extras.split(",")}
    assert extras <= set(metadata("flask-jsonrpc-mcp").get_all("Provides-Extra") or ())


def test_the_gunicorn_configuration_is_the_one_of_the_repository() -> None:
    [shown] = [block for block in BLOCKS["deployment"] if block.file == "gunicorn.conf.py"]
    assert shown.text + "\n" == (ROOT / "gunicorn.conf.py").read_text()


def test_every_setting_is_in_the_table_with_its_default() -> None:
    page = (ROOT / "docs/settings.md").read_text()
    listed = dict(re.findall(rf"^\| `{PREFIX}(\w+)` \| (.*?) \|", page, re.MULTILINE))
    assert sorted(listed) == sorted(DEFAULTS)
    for name, default in DEFAULTS.items():
        if isinstance(default, (bool, str)):
            assert listed[name] == f"`{default!r}`".replace("'", '"')
        elif isinstance(default, int):
            assert listed[name].split(",")[0] == str(default)
        else:
            assert not default  # and the table says in words what that means


@pytest.mark.parametrize(
    "module",
    [flask_jsonrpc_mcp, audit, audit_table, doctor, metrics, oauth, openapi, testing, tracing],
    ids=lambda module: module.__name__,
)
def test_the_reference_has_exactly_the_public_names(module: ModuleType) -> None:
    page = (ROOT / "docs/api.md").read_text()
    parts = re.split(r"^\.\. currentmodule:: (.*)$", page, flags=re.MULTILINE)
    text = "".join(part for name, part in zip(parts[1::2], parts[2::2], strict=True) if name == module.__name__)
    described = re.findall(r"^\.\. (?:auto\w+|py:data):: (?:[\w.]+\.)?(\w+)$", text, re.MULTILINE)
    assert sorted(described) == sorted(module.__all__)


@pytest.mark.parametrize(
    ("page", "headings"),
    [
        ("SECURITY.md", ["What the package promises"]),
        ("docs/security.md", ["Bad input", "Failures", "Attackers", "Host names"]),
    ],
)
def test_every_promise_names_tests_that_exist(page: str, headings: list[str]) -> None:
    """A promise is a bullet or the row of a table, and names its tests itself or in a footnote."""
    text = (ROOT / page).read_text()
    notes = dict(re.findall(r"^(\[\^[\w-]+\]): (.*)\n", text, re.MULTILINE))
    parts = re.split(r"^## (.*)$", re.sub(r"^\[\^.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    promising = "".join(part for heading, part in zip(parts[1::2], parts[2::2], strict=True) if heading in headings)
    bullets = re.findall(r"^\* .*(?:\n\n?  .*)*", promising, re.MULTILINE)
    tables = re.findall(r"^\|(?: -+ \|)+\n((?:\|.*\n)+)", promising, re.MULTILINE)
    suites = "\n".join(file.read_text() for file in (ROOT / "tests").glob("*/test_*.py"))
    tests = set(re.findall(r"^ *def (test_\w+)\(", suites, re.MULTILINE))
    found: list[str] = []
    for promise in [*bullets, *"".join(tables).splitlines()]:
        marks = re.findall(r"\[\^[\w-]+\]|`test_\w+`", promise)
        names = re.findall(r"`(test_\w+)`", " ".join(notes.get(mark, mark) for mark in marks))
        assert names, f"{page} names no test of {promise}"
        assert [name for name in names if name not in tests] == []
        found += marks
    assert set(notes) <= set(found)
    # Were the patterns above to miss a promise, its marks would be left over.
    assert len(found) == len(re.findall(r"\[\^[\w-]+\]|`test_\w+`", "".join(parts)))
