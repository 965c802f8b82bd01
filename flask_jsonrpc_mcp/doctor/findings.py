"""What the doctor finds, and what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flask import Flask

from ..core import Core
from ..methods import Method
from ..settings import PREFIX

ERROR = "error"
"""Something that breaks, or lets in who should stay out."""
WARNING = "warning"
"""Something that breaks with some clients or some deployments."""


@dataclass(frozen=True)
class Finding:
    """One thing that will break.

    :param slug: What kind of thing, in one word that stays the same; see ``JSONRPC_MCP_DOCTOR_IGNORE``.
    :param severity: ``error`` or ``warning``.
    :param why: What will happen, and to whom.
    :param fix: What to do about it.
    :param tool: The tool it is about; ``None`` when it is about the blueprint or the whole app.
    :param blueprint: The blueprint it is about; ``None`` when it is about the whole app.
    """

    slug: str
    severity: str
    why: str
    fix: str
    tool: str | None = None
    blueprint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Spell the finding for programs: every member is always there."""
        return dict(vars(self))

    def __str__(self) -> str:
        about = "" if self.tool is None else f" ({self.tool})"
        return f"{self.slug}{about}: {self.why}; {self.fix}"


@dataclass(frozen=True)
class Place:
    """A blueprint in an app."""

    app: Flask
    blueprint: str
    core: Core

    @property
    def tools(self) -> list[Method]:
        return [method for method in self.core.registry if method.tool is not None]

    def setting(self, name: str) -> Any:
        return self.app.config[PREFIX + name]


Look = TypeVar("Look", bound=Callable[..., Any])


@dataclass(frozen=True)
class Check(Generic[Look]):
    """One kind of thing to look for. ``look`` says why it is there, once for each time it is."""

    slug: str
    severity: str
    look: Look
    fix: str


ToolCheck = Check[Callable[[Place, Method], str | None]]
BlueprintCheck = Check[Callable[[Place], Iterable[str]]]
AppCheck = Check[Callable[[Flask, list[Place]], Iterable[str]]]
