"""Finds the method that a command names, and helps whoever misspells it."""

from __future__ import annotations

import difflib

import click
from click.shell_completion import CompletionItem

from ..access import Caller
from ..core import Core
from ..errors import MethodNotFound
from ..methods import Method
from .callers import Session, app_being_typed, blueprints_of


def find_method(session: Session, name: str) -> Method:
    """Find a method by its name, or by its alias without dots. Tools and other methods alike.

    :raises click.UsageError: saying why there is none.
    """
    known_as = session.core.registry.name_of(name)
    try:
        return session.core.catalogue.find(known_as, session.caller, listed_only=False)
    except MethodNotFound as error:
        raise click.UsageError(_why_not(session.core, session.caller, known_as)) from error


def complete_name(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    """Complete the name of a method in a shell."""
    app = app_being_typed(context)
    if app is None:
        return []
    chosen = context.params.get("blueprint")
    blueprints = blueprints_of(app)
    cores = [core for name, core in blueprints.items() if chosen in (None, name)]
    found = [method for core in cores for method in core.registry if method.name.startswith(word)]
    return [CompletionItem(method.name, help=summary(method)) for method in found]


def summary(method: Method) -> str:
    """The first sentence or so of a description."""
    return " ".join(method.description.partition("\n\n")[0].split())


def _why_not(core: Core, caller: Caller, name: str) -> str:
    method = core.registry.get(name)
    if method is not None:
        # The developer may know; to anyone else, what is hidden and what is absent look the same.
        missing = ", ".join(sorted(method.access - caller.permissions))
        return f"{name} needs the permission {missing}, which this caller does not have"
    visible = [method.name for method in core.catalogue.methods_for(caller)]
    similar = difflib.get_close_matches(name, visible, n=3)
    hint = f"did you mean {' or '.join(similar)}?" if similar else "flask mcp list --all shows what there is"
    return f"There is no tool or method {name!r}; {hint}"
