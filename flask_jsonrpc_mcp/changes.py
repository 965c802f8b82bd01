"""What has changed while clients are connected: told by any process, heard by all, through the mailbox."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from .mailbox import NoMailbox, current_mailbox
from .settings import setting

TOOLS, PROMPTS, RESOURCES = "tools", "prompts", "resources"
LISTS = (TOOLS, PROMPTS, RESOURCES)

REMEMBERED = 60 * 60
"""For how many seconds a change can be heard of; who listens looks far more often."""


def are_announced() -> bool:
    """Whether clients of this app can listen for changes at all."""
    return bool(setting("SUBSCRIPTIONS")) and current_mailbox().is_possible


def is_server_ending() -> bool:
    """Whether the server waits for its requests to end; see ``JSONRPC_MCP_IS_ENDING``."""
    is_ending = setting("IS_ENDING")
    return is_ending is not None and bool(is_ending())


def announce(blueprint: str, topic: str) -> None:
    """Tell everyone who listens to a topic: the name of a list, or the URI of a resource."""
    if are_announced():
        # A word that was never there before is a change, however many there were in between.
        try:
            current_mailbox().put(_key(blueprint, topic), secrets.token_hex(8), REMEMBERED)
        except NoMailbox:
            pass  # it is in the log; whoever made the change has made it


class Watch:
    """Notices what changes from now on."""

    def __init__(self, blueprint: str, topics: Iterable[str]) -> None:
        self._blueprint = blueprint
        self._seen = {topic: self._word(topic) for topic in topics}

    def changed(self) -> list[str]:
        """Name the topics that have changed since the last look."""
        changed = []
        for topic, seen in self._seen.items():
            word = self._word(topic)
            if word is not None and word != seen:
                self._seen[topic] = word
                changed.append(topic)
        return changed

    def _word(self, topic: str) -> str | None:
        word: str | None = current_mailbox().look(_key(self._blueprint, topic))
        return word


def _key(blueprint: str, topic: str) -> str:
    return f"change {blueprint} {topic}"
