"""Announce changes of lists and resources to the clients that listen for them, in all processes of an app."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress

from flask import current_app

from .mailbox import NoMailbox, current_mailbox

TOOLS, PROMPTS, RESOURCES = "tools", "prompts", "resources"
LISTS = (TOOLS, PROMPTS, RESOURCES)

MAX_AGE = 60 * 60
"""For how many seconds a change is kept; clients that listen poll far more often."""


class Watch:
    """Notices changes from now on.

    :param topics: Names of lists, and URIs of resources.
    """

    def __init__(self, blueprint: str, topics: Iterable[str]) -> None:
        self._topics = {_key(blueprint, topic): topic for topic in topics}
        self._seen = current_mailbox().get_all(self._topics)

    def changed(self) -> list[str]:
        """Return the topics that have changed since the last call."""
        now = current_mailbox().get_all(self._topics)
        changed = [topic for key, topic in self._topics.items() if key in now and now[key] != self._seen.get(key)]
        self._seen |= now
        return changed


def announces_changes() -> bool:
    """Return whether clients of this app can listen for changes."""
    return bool(current_app.config["JSONRPC_MCP_SUBSCRIPTIONS"]) and current_mailbox().is_possible


def announce(blueprint: str, topic: str) -> None:
    """Publish a change to all listening clients: of a list, by its name, or of a resource, by its URI."""
    if announces_changes():
        # A failure is in the log, and no reason to fail for the function that made the change.
        with suppress(NoMailbox):
            current_mailbox().put(_key(blueprint, topic), secrets.token_hex(8), MAX_AGE)


def _key(blueprint: str, topic: str) -> str:
    return f"change {blueprint} {topic}"
