"""How gunicorn would run the app, as far as its settings tell without running them."""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

CONFIG_FILE = "gunicorn.conf.py"

_SETTINGS = ("workers", "threads", "worker_class")
_UNKNOWN = object()


@dataclass(frozen=True)
class Gunicorn:
    """What gunicorn was told; ``None`` for what only running its configuration would tell."""

    workers: int | None
    threads: int | None
    worker_class: str | None

    @property
    def takes_one_call_at_a_time(self) -> bool:
        return self.worker_class in ("sync", "gthread") and self.workers == self.threads == 1


def read_gunicorn(folder: Path, environ: Mapping[str, str]) -> Gunicorn | None:
    """Read ``gunicorn.conf.py``, ``GUNICORN_CMD_ARGS`` and ``WEB_CONCURRENCY``; ``None`` when there is none of them."""
    concurrency, command_line = environ.get("WEB_CONCURRENCY"), environ.get("GUNICORN_CMD_ARGS")
    arguments = _read_arguments(command_line or "")
    file = folder / (arguments.pop("config", None) or f"./{CONFIG_FILE}").removeprefix("file:")
    if not (concurrency or command_line or file.is_file()):
        return None
    told: dict[str, Any] = {"workers": _as_int(concurrency or "1"), "threads": 1, "worker_class": "sync"}
    if file.is_file():
        told.update(_read_file(file))
    elif file.name != CONFIG_FILE:
        told.update(dict.fromkeys(_SETTINGS, _UNKNOWN))  # a module to import, or a file of another folder
    told.update(arguments)
    return Gunicorn(**{name: None if value is _UNKNOWN else value for name, value in told.items()})


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _read_arguments(command_line: str) -> dict[str, Any]:
    parser = _Arguments(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("-w", "--workers", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("-k", "--worker-class")
    parser.add_argument("-c", "--config")
    try:
        known, _ = parser.parse_known_args(shlex.split(command_line))
    except ValueError:
        return dict.fromkeys(_SETTINGS, _UNKNOWN)
    return vars(known)


def _read_file(file: Path) -> dict[str, Any]:
    """Read the settings that are written as plain values; it may be anyone's code, so none of it runs."""
    try:
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return dict.fromkeys(_SETTINGS, _UNKNOWN)
    literals: dict[int, Any] = {}
    for node in module.body:
        if isinstance(node, ast.Assign):
            literals.update((id(target), _literal(node.value)) for target in node.targets)
    told: dict[str, Any] = {}
    for inner in ast.walk(module):
        if isinstance(inner, ast.ImportFrom):
            names = {alias.asname or alias.name for alias in inner.names}
            told.update(dict.fromkeys(_SETTINGS if "*" in names else names.intersection(_SETTINGS), _UNKNOWN))
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id in _SETTINGS:
            # Set twice, or set in an "if": which one counts only running it would tell.
            told[inner.id] = _UNKNOWN if inner.id in told else literals.get(id(inner), _UNKNOWN)
    return told


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _UNKNOWN


def _as_int(text: str) -> Any:
    return int(text) if text.isdecimal() else _UNKNOWN
