"""``subscriptions/listen``: one request, open for as long as the client wants to hear of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..changes import LISTS, Watch, are_announced, is_server_ending
from ..envelope import Id, Request, notification
from ..errors import MalformedParams, MethodNotFound, UnknownResource
from ..mailbox import NoMailbox, current_mailbox
from . import protocol
from .resources import visible_resource
from .session import Session

LISTEN = "subscriptions/listen"
MAX_RESOURCES = 100
"""How many resources one subscription may be about; each costs a look at every tick."""

# What a client names in its filter, by the list that it is about.
_FILTERS = {f"{topic}ListChanged": topic for topic in LISTS}
_UPDATES = "resourceSubscriptions"


class Subscription(NamedTuple):
    """What a client listens to.

    :param topics: The names of lists, and the URIs of resources.
    :param agreed: The part of the client's filter that we keep to.
    """

    session: Session
    id: Id
    topics: tuple[str, ...]
    agreed: Mapping[str, Any]

    def messages(self) -> Iterator[dict[str, Any] | None]:
        """Tell of each change, and ``None`` where there was none since the last look.

        Ends when the client has gone, and when the server is told to stop.

        :raises Overloaded: when too many listen already.
        """
        with current_mailbox().place_to_listen():
            watch = Watch(self.session.core.name, self.topics)
            yield self._message("notifications/subscriptions/acknowledged", {"notifications": self.agreed})
            while not self.session.cancellation.requested and not is_server_ending():
                try:
                    changed = watch.changed()
                except NoMailbox:
                    return  # it is in the log; the client may ask again
                yield from map(self._change, changed)
                yield None

    @property
    def result(self) -> dict[str, Any]:
        """What tells the client that the subscription has ended, and was not cut off."""
        return {"resultType": "complete", "_meta": {protocol.SUBSCRIPTION_ID: self.id}}

    def _change(self, topic: str) -> dict[str, Any]:
        if topic in LISTS:
            return self._message(f"notifications/{topic}/list_changed", {})
        return self._message("notifications/resources/updated", {"uri": topic})

    def _message(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return notification(method, {"_meta": {protocol.SUBSCRIPTION_ID: self.id}, **params})


def subscribe(session: Session, request: Request) -> Subscription:
    """Take a subscription, as far as there is something to hear of.

    :raises MethodNotFound: when the app announces no changes.
    """
    if not are_announced():
        raise MethodNotFound(request.method)
    params: Any = request.params
    wanted = params.get("notifications")
    if not isinstance(wanted, dict):
        raise MalformedParams("params.notifications must be an object")
    agreed: dict[str, Any] = {name: True for name in _FILTERS if wanted.get(name) is True}
    uris = wanted.get(_UPDATES, [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise MalformedParams(f"params.notifications.{_UPDATES} must be a list of URIs")
    if len(uris) > MAX_RESOURCES:
        raise MalformedParams(f"params.notifications.{_UPDATES} may have at most {MAX_RESOURCES} URIs")
    visible = [uri for uri in dict.fromkeys(uris) if _is_visible(session, uri)]
    if visible:
        agreed[_UPDATES] = visible
    topics = [topic for name, topic in _FILTERS.items() if name in agreed]
    return Subscription(session, request.id, (*topics, *visible), agreed)


def _is_visible(session: Session, uri: str) -> bool:
    try:
        visible_resource(session, {"uri": uri})
    except UnknownResource:
        return False
    return uri not in LISTS
