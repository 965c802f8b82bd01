"""``subscriptions/listen``: a request that stays open and sends notifications of changes (2026-07-28)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..auth import Caller
from ..call import SUBSCRIPTION, Result
from ..envelope import Id, notification
from ..errors import MalformedParams, MethodNotFound, NoMailbox, UnknownResource
from ..invoke import invoke
from ..levels import waiting_slot
from ..mailbox import LISTS, Watch, announces_changes
from .extensions import Watcher
from .methods import visible_resource
from .protocol import LISTEN, SUBSCRIPTION_ID, RequestContext, Send

MAX_RESOURCES = 100
"""Maximum resources of one subscription; each costs a query at every poll."""

POLL_EVERY = 0.2
"""Seconds between two polls for changes."""

IDENTIFY_EVERY = 60
"""Seconds after which the caller is identified again, whose account or permissions may be gone."""

_FILTERS = {f"{topic}ListChanged": topic for topic in LISTS}
_RESOURCES = "resourceSubscriptions"


@dataclass(frozen=True)
class Subscription:
    """What a client listens to.

    :param lists: Names of lists.
    :param uris: URIs of resources.
    :param accepted: The part of the client's filter that is supported.
    :param watchers: What the client listens to by extensions.
    """

    context: RequestContext
    lists: Sequence[str]
    uris: Sequence[str]
    accepted: Mapping[str, Any]
    watchers: Sequence[Watcher] = ()

    def run(self, id: Id, send: Send, wait: Callable[[], None], identify: Callable[[], Caller]) -> dict[str, Any]:
        """Send a notification for each change, and return the final result.

        Ends when the request is cancelled, when the server stops, and when the caller may no longer read a resource.

        :param wait: Called after each poll.
        :param identify: Identifies the caller again; called every `IDENTIFY_EVERY` seconds.
        :raises RpcError: if too many threads wait for a client already, if a rate limit is exceeded, and when the
            caller's credentials are no longer valid.
        """
        meta = {"_meta": {SUBSCRIPTION_ID: id}}

        def notify(name: str, **params: Any) -> None:
            send(notification(f"notifications/{name}", {**meta, **params}))

        call = self.context.call(SUBSCRIPTION, LISTEN, self.accepted)
        invoke(call, self.context.registry, lambda: self._listen(notify, wait, identify))
        return {"resultType": "complete", **meta}

    def _listen(self, notify: Callable[..., None], wait: Callable[[], None], identify: Callable[[], Caller]) -> Result:
        context, ended = self.context, Result(None)
        with waiting_slot():
            watch, identified = Watch(context.registry.name, [*self.lists, *self.uris]), time.monotonic()
            notify("subscriptions/acknowledged", notifications=self.accepted)
            while not context.cancellation.requested and not context.server_is_ending:
                if time.monotonic() - identified >= IDENTIFY_EVERY:
                    now = context._replace(caller=identify())
                    is_allowed = all(_is_visible(now, uri) for uri in self.uris)
                    if not is_allowed or not all(watcher.is_allowed(now) for watcher in self.watchers):
                        return ended  # the client may subscribe again to what is left
                    identified = time.monotonic()
                try:
                    changed = watch.changed()
                except NoMailbox:
                    return ended  # the log has the reason; the client may subscribe again
                for topic in changed:
                    if topic in LISTS:
                        notify(f"{topic}/list_changed")
                    else:
                        notify("resources/updated", uri=topic)
                for watcher in self.watchers:
                    for name, params in watcher.changes():
                        notify(name, **params)
                wait()
        return ended


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
    found = [extension.listen(context, wanted) for extension in context.registry.extensions.values()]
    watchers = [watcher for watcher in found if watcher is not None]
    for watcher in watchers:
        accepted |= watcher.accepted
    lists = [topic for name, topic in _FILTERS.items() if name in accepted]
    return Subscription(context, lists, visible, accepted, watchers)


def _is_visible(context: RequestContext, uri: str) -> bool:
    try:
        visible_resource(context, {"uri": uri})
    except UnknownResource:
        return False
    return uri not in LISTS
