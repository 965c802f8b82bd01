"""``subscriptions/listen``: a request that stays open and sends notifications of changes (2026-07-28)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from ..changes import LISTS, Watch, announces_changes
from ..envelope import Id, notification
from ..errors import MalformedParams, MethodNotFound, UnknownResource
from ..mailbox import NoMailbox
from .methods import visible_resource
from .protocol import LISTEN, SUBSCRIPTION_ID, RequestContext
from .waiting import place_to_wait

MAX_RESOURCES = 100
"""Maximum resources of one subscription; each costs a query at every poll."""

POLL_EVERY = 0.2
"""After how many seconds a transport polls for changes again."""

_FILTERS = {f"{topic}ListChanged": topic for topic in LISTS}
_RESOURCES = "resourceSubscriptions"


@dataclass(frozen=True)
class Subscription:
    """What a client listens to.

    :param topics: Names of lists, and URIs of resources.
    :param accepted: The part of the client's filter that is supported.
    """

    context: RequestContext
    topics: tuple[str, ...]
    accepted: Mapping[str, Any]

    def messages(self, id: Id) -> Generator[dict[str, Any] | None]:
        """Yield a notification for each change, and ``None`` at the end of each poll.

        Ends when the request is cancelled and when the server stops.

        :raises Overloaded: if too many clients listen already.
        """
        with place_to_wait():
            watch = Watch(self.context.registry.name, self.topics)
            yield _message(id, "notifications/subscriptions/acknowledged", {"notifications": self.accepted})
            while not self.context.cancellation.requested and not _is_server_ending(self.context):
                try:
                    changed = watch.changed()
                except NoMailbox:
                    return  # the log has the reason; the client may subscribe again
                for topic in changed:
                    if topic in LISTS:
                        yield _message(id, f"notifications/{topic}/list_changed", {})
                    else:
                        yield _message(id, "notifications/resources/updated", {"uri": topic})
                yield None


def listen(context: RequestContext, params: Mapping[str, Any]) -> Subscription:
    """Accept a subscription.

    :raises MethodNotFound: if the app does not announce changes.
    """
    if not announces_changes():
        raise MethodNotFound(LISTEN)
    wanted = params.get("notifications")
    if not isinstance(wanted, dict):
        raise MalformedParams("params.notifications must be an object")
    accepted: dict[str, Any] = {name: True for name in _FILTERS if wanted.get(name) is True}
    uris = wanted.get(_RESOURCES, [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise MalformedParams(f"params.notifications.{_RESOURCES} must be a list of URIs")
    if len(uris) > MAX_RESOURCES:
        raise MalformedParams(f"params.notifications.{_RESOURCES} may have at most {MAX_RESOURCES} URIs")
    visible = [uri for uri in dict.fromkeys(uris) if _is_visible(context, uri)]
    if visible:
        accepted[_RESOURCES] = visible
    topics = [topic for name, topic in _FILTERS.items() if name in accepted]
    return Subscription(context, (*topics, *visible), accepted)


def final_result(id: Id) -> dict[str, Any]:
    """Build the result that ends a subscription."""
    return {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}}


def _message(id: Id, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return notification(method, {"_meta": {SUBSCRIPTION_ID: id}, **params})


def _is_server_ending(context: RequestContext) -> bool:
    """Return whether the server waits for its requests to end; see ``JSONRPC_MCP_IS_ENDING``."""
    is_ending = context.setting("IS_ENDING")
    return is_ending is not None and bool(is_ending())


def _is_visible(context: RequestContext, uri: str) -> bool:
    try:
        visible_resource(context, {"uri": uri})
    except UnknownResource:
        return False
    return uri not in LISTS
