"""Methods that misbehave: whatever they raise or return, their callers get one generic answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from flask import Response, abort, jsonify, redirect


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def raising(error: BaseException) -> Callable[[], None]:
    def method() -> None:
        raise error

    return method


def recurse() -> None:
    recurse()


def raise_chained() -> None:
    try:
        raise ValueError("secret cause")
    except ValueError as error:
        raise KeyError("secret key") from error


def deep() -> Any:
    value: Any = "secret"
    for _ in range(100_000):
        value = [value]
    return value


def looped() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


MISBEHAVING: dict[str, Callable[[], Any]] = {
    "exception": raising(ValueError("secret text")),
    "chained": raise_chained,
    "abort-503": lambda: abort(503, "secret page"),
    "redirect": lambda: abort(redirect("https://secret.example/")),
    "unprintable": raising(Unprintable()),
    "megabyte": raising(ValueError("secret" * 200_000)),
    "memory": raising(MemoryError()),
    "recursion": recurse,
    "exit": lambda: sys.exit(3),
    "exit-4": lambda: sys.exit(4),
    "interrupt": raising(KeyboardInterrupt()),
    "generator-exit": raising(GeneratorExit()),
    "base": raising(BaseException("secret")),
    "stop-iteration": raising(StopIteration("secret")),
    "complex": lambda: 1j,
    "function": lambda: recurse,
    "page": lambda: Response("<h1>secret</h1>", mimetype="text/html"),
    "response-500": lambda: (jsonify("secret"), 500),
    "nan": lambda: float("nan"),
    "infinity": lambda: {"a": [float("inf")]},
    "deep": deep,
    "looped": looped,
    "huge-int": lambda: 10**5000,
    "int-key": lambda: {1: "secret"},
    "mixed-keys": lambda: {"a": 1, None: "secret"},
    "surrogate": lambda: "\ud800",
    "surrogate-key": lambda: {"\ud800": "secret"},
}
