"""What is published: the package with everything it needs, and nothing else of this repository."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.servers import ROOT

PACKAGE = "flask_jsonrpc_mcp"
PLUGIN = "pytest_flask_jsonrpc_mcp.py"


def files_of_the_package() -> set[str]:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py")}
    pages = {
        path.relative_to(ROOT).as_posix()
        for folder in ("explorer", "oauth_server/templates/oauth_server")
        for path in (ROOT / PACKAGE / folder).iterdir()
    }
    return {*modules, *pages, f"{PACKAGE}/py.typed", PLUGIN}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both distributions, from a copy because setuptools leaves files behind and would pack old ones again."""
    folder = tmp_path_factory.mktemp("dist")
    left_behind = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "node_modules", "instance")
    shutil.copytree(ROOT, folder / "copy", ignore=left_behind)
    for build in ("build_sdist", "build_wheel"):
        script = f"import sys; from setuptools import build_meta; build_meta.{build}(sys.argv[1])"
        command = [sys.executable, "-c", script, str(folder)]
        built = subprocess.run(command, cwd=folder / "copy", capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not re.match(rf"{PACKAGE}-[^/]+\.dist-info/", name)}
    assert names == files_of_the_package()


def test_the_source_holds_what_the_wheel_is_built_from(dist: Path) -> None:
    [source] = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    made = {name for name in names if name.startswith(f"{PACKAGE}.egg-info/")} | {"PKG-INFO"}
    written = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.cfg"}
    assert names - made == files_of_the_package() | written


def test_it_needs_these_packages_and_no_others(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        required = message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
    core = {re.split(r"[^\w-]", requirement)[0].lower() for requirement in required if "extra ==" not in requirement}
    assert core == {"flask", "marshmallow", "jsonschema", "flask-httpauth"}


def test_the_package_works_without_its_extras(wheel: Path, tmp_path: Path) -> None:
    """What is not installed is hidden here; an async method must say at import what it needs."""
    script = f"""
import functools
import sys
sys.modules.update(dict.fromkeys(["asgiref", "gunicorn", "jsonschema_rs", "orjson", "sqlalchemy"]))

import {PACKAGE}
print({PACKAGE}.__file__)

rpc = {PACKAGE}.McpBlueprint()
try:
    @rpc.method
    async def later() -> None: ...
except TypeError as error:
    print(error)

async def add(a: int, b: int) -> int: ...

try:
    rpc.add_method("add-one", functools.partial(add, 1))
except TypeError as error:
    print(str(error).partition(": ")[2])
"""
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.stdout.splitlines() == [
        str(tmp_path / "installed" / PACKAGE / "__init__.py"),
        "later(): async functions need asgiref; install flask-jsonrpc-mcp[async]",
        "async functions need asgiref; install flask-jsonrpc-mcp[async]",
    ], ran.stderr


def test_imports_point_downwards_only() -> None:
    """As the map in CONTRIBUTING.md has them; it names everything there is."""
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = guide[guide.index("flask_jsonrpc_mcp/\n") : guide.index("pytest_flask_jsonrpc_mcp.py")]
    order = re.findall(r"^  (\w+)(?:\.py|/) ", drawn, re.MULTILINE)
    package = ROOT / "flask_jsonrpc_mcp"
    modules = {
        path.stem for path in package.iterdir() if path.suffix == ".py" or (path.is_dir() and path.name[0] != "_")
    }
    assert set(order) == modules - {"__main__"}
    inner = {path.stem for path in package.glob("*/*.py") if path.stem != "__init__"}
    assert inner - set(re.findall(r"\w+", drawn)) == set()
    upwards = []
    for file in package.rglob("*.py"):
        own = file.relative_to(package).parts
        names = {name for node in ast.walk(ast.parse(file.read_text())) for name in _names_from_root(node, len(own))}
        place = own[0].removesuffix(".py")
        if place not in ("__init__", "__main__"):
            upwards += [(place, name) for name in names if name in order and order.index(name) < order.index(place)]
    # flask_jsonrpc_mcp.oauth has the names of both, and imports those of the server when they are used.
    assert upwards == [("oauth", "oauth_server")]


def _names_from_root(node: ast.AST, depth: int) -> list[str]:
    """What an import takes from the root of the package, seen from a file so deep in it."""
    if not isinstance(node, ast.ImportFrom) or node.level != depth:
        return []
    return [alias.name for alias in node.names] if node.module is None else [node.module.partition(".")[0]]
