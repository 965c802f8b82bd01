"""Goes through all checks, but for those that nobody wants to hear of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Flask

from ..core import Core
from ..faces.discovery import EXTENSION
from ..settings import PREFIX
from .findings import Check, Finding, Place
from .site import APP_CHECKS, BLUEPRINT_CHECKS
from .tools import TOOL_CHECKS

CHECKS: tuple[Check[Callable[..., Any]], ...] = (*TOOL_CHECKS, *BLUEPRINT_CHECKS, *APP_CHECKS)
SLUGS = tuple(check.slug for check in CHECKS)


def examine(app: Flask, *, ignore: Iterable[str] | None = None, tools_only: bool = False) -> list[Finding]:
    """Find what will break before a client does.

    :param ignore: What not to look for: slugs such as ``"name-dots"``, or ``"name-dots:articles.get"`` for one tool.
        By default what ``JSONRPC_MCP_DOCTOR_IGNORE`` says.
    :param tools_only: Look at the tools alone, and not at the settings, the sign-in and the server around them.
    :raises ValueError: for a slug that does not exist.
    :raises LookupError: when the app has no `McpBlueprint`.
    """
    blueprints: dict[str, Core] = app.extensions.get(EXTENSION, {})
    if not blueprints:
        raise LookupError("the app has no McpBlueprint; register one with app.register_blueprint(rpc)")
    ignored = checked_ignores(app.config[PREFIX + "DOCTOR_IGNORE"] if ignore is None else ignore)
    places = [Place(app, name, core) for name, core in blueprints.items()]
    found = _examine_tools(places, ignored) if tools_only else _examine_all(app, places, ignored)
    return [finding for finding in found if f"{finding.slug}:{finding.tool}" not in ignored]


def checked_ignores(ignore: Iterable[str]) -> frozenset[str]:
    """See that every slug is one of ours: a misspelled one would be a check that nobody knows is still made.

    :raises ValueError: naming those that there are.
    """
    ignored = frozenset(ignore)
    unknown = sorted(entry for entry in ignored if entry.partition(":")[0] not in SLUGS)
    if unknown:
        raise ValueError(f"{unknown[0]!r} cannot be ignored, because the doctor looks for {', '.join(SLUGS)}")
    return ignored


def _examine_all(app: Flask, places: list[Place], ignored: frozenset[str]) -> Iterator[Finding]:
    yield from _examine_tools(places, ignored)
    for place in places:
        for blueprint_check in BLUEPRINT_CHECKS:
            # What is ignored is not even tried: someone may not want sign-ins to be.
            if blueprint_check.slug not in ignored:
                for why in blueprint_check.look(place):
                    yield _finding(blueprint_check, why, blueprint=place.blueprint)
    for app_check in APP_CHECKS:
        if app_check.slug not in ignored:
            for why in app_check.look(app, places):
                yield _finding(app_check, why)


def _examine_tools(places: list[Place], ignored: frozenset[str]) -> Iterator[Finding]:
    for check in TOOL_CHECKS:
        if check.slug not in ignored:
            for place in places:
                for tool in place.tools:
                    why = check.look(place, tool)
                    if why is not None:
                        yield _finding(check, why, tool=tool.name, blueprint=place.blueprint)


def _finding(check: Check[Any], why: str, **about: str) -> Finding:
    return Finding(check.slug, check.severity, why, check.fix, **about)
