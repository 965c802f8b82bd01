"""The tools of the site, as its list describes them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..declarations import HINTS
from ..registry import alias_of
from ..settings import NO_DOTS
from .settings import Settings
from .site import SiteFailure

MAX_NAME = 256
NOTHING = {"type": "object", "properties": {}}
"""The schema of a tool without arguments."""

# Keywords whose value is an object by definition. PHP writes an empty one as a list.
_OBJECTS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteSchema:
    schema: dict[str, Any]


@dataclass(frozen=True)
class RemoteTool:
    """A tool of the site.

    :param scopes: What a caller's token must allow; ``None`` when anyone may call it.
    """

    name: str
    descriptor: dict[str, Any]
    params: RemoteSchema
    output: RemoteSchema | None
    read_only: bool
    scopes: frozenset[str] | None

    def check_access(self, settings: Settings) -> None:
        """See that the tool may be called with what we have, as far as that can be known here.

        :raises SiteFailure: saying what is missing.
        """
        if self.scopes is None:
            return
        needed = f" with the scopes {_spell(self.scopes)}" if self.scopes else ""
        if settings.authorization is None:
            raise SiteFailure(
                f"{self.name} needs a sign-in{needed}: set MCP_BRIDGE_TOKEN, or MCP_BRIDGE_USER and MCP_BRIDGE_PASSWORD"
            )
        missing = self.scopes - settings.scopes if settings.scopes is not None else ()
        if missing:
            raise SiteFailure(
                f"{self.name} needs a sign-in{needed}; the token of the bridge lacks {_spell(missing)}"
                f" (MCP_BRIDGE_SCOPES has {_spell(settings.scopes or ()) or 'none'})"
            )


def read_tool(item: Any) -> RemoteTool | None:
    """Read a tool as the list describes it; ``None`` for what no client could use."""
    if not isinstance(item, Mapping):
        return None
    name, schema = item.get("name"), item.get("inputSchema")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        return None
    annotations = item.get("annotations")
    annotations = dict(annotations) if isinstance(annotations, Mapping) else {}
    described: dict[str, Any] = {"name": name}
    if isinstance(item.get("title"), str):
        described["title"] = item["title"]
    described["description"] = str(item.get("description") or item.get("title") or name)
    if annotations:
        described["annotations"] = {key: value for key, value in annotations.items() if _is_fit(key, value)}
    output = item.get("outputSchema")
    return RemoteTool(
        name,
        described,
        # Clients refuse a tool whose arguments are no object.
        RemoteSchema({**NOTHING, **_mended(schema if isinstance(schema, Mapping) else {}), "type": "object"}),
        RemoteSchema(_mended(output)) if isinstance(output, Mapping) and output else None,
        annotations.get("readOnlyHint") is True,
        _read_scopes(annotations.get("auth")),
    )


def by_shown_name(tools: Collection[RemoteTool], style: str) -> dict[str, RemoteTool]:
    """Find the names that clients see: without dots, if they want that, where no other tool would have the same."""
    if style != NO_DOTS:
        return {tool.name: tool for tool in tools}
    counts = Counter(alias_of(tool.name) for tool in tools)
    shown = {}
    for tool in tools:
        alias = alias_of(tool.name)
        is_shared = counts[alias] > 1
        if is_shared and alias != tool.name:
            logger.warning("without dots %r would be %r as another tool is, so it keeps them", tool.name, alias)
        shown[tool.name if is_shared else alias] = tool
    return shown


def _is_fit(key: str, value: Any) -> bool:
    """Tell whether clients, which refuse a whole list for one hint of the wrong kind, would take an annotation."""
    return isinstance(value, bool) if key in HINTS else isinstance(value, str) if key == "title" else True


def _read_scopes(auth: Any) -> frozenset[str] | None:
    """Read what Drupal's tools say of themselves: ``{"scopes": ["content:write"], "level": "required"}``."""
    if not isinstance(auth, Mapping):
        return None
    scopes = auth.get("scopes")
    scopes = frozenset(map(str, scopes)) if isinstance(scopes, list) else frozenset()
    level = auth.get("level", "required" if scopes else "none")
    return scopes if level == "required" else None


def _mended(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_mended(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {keyword: {} if keyword in _OBJECTS and value == [] else _mended(value) for keyword, value in schema.items()}


def _spell(scopes: Any) -> str:
    return ", ".join(sorted(scopes))
