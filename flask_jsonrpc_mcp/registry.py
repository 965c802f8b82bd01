"""The methods, prompts and resources of a blueprint, and the pages of those that a caller can see.

The visible methods and their pages are cached for each set of permissions, so that the time for a request does not
depend on the number of methods.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from .ask import Question
from .auth import Authenticator, Caller
from .call import COMPLETION, METHOD, PROMPT, RESOURCE, Call
from .checks import check_placeholders, name_of, naming
from .errors import InvalidCursor, MethodNotFound, RpcError, SignInRequired
from .failures import ErrorHandlers
from .method import M, Method, marks
from .prompts import Completer, Prompt, completer_name
from .rate_limits import RateLimits
from .resources import Resource, is_template
from .strict_json import has_lazy_text, is_lazy

EXTENSION = "jsonrpc_mcp"
"""``app.extensions["jsonrpc_mcp"]`` has the registries of the app's blueprints by full blueprint name."""

Hook = Callable[[Call], AbstractContextManager[Any]]
"""A function of ``@rpc.around``, which makes a context manager around one run of a method."""

CallObserver = Callable[[Call, Method | None, str, float, RpcError | None], None]
"""Called after each call with what `method_called` has: the call, the method, the outcome, the duration, the error."""

RequestHook = Callable[..., Any]
"""Runs an MCP request: called with its handler and with what that takes, the message and its context first."""

QuestionHook = Callable[[Callable[[Mapping[str, Question]], Mapping[str, Any]], Mapping[str, Question]], Any]
"""Asks a client from before 2026-07-28: called with the function that does so, and the questions."""

MAX_LISTINGS = 256
"""Maximum sets of permissions for which the visible methods are cached."""

# Paths below /mcp/tools/.
RESERVED_TOOL_NAMES = ("list", "describe", "invoke")

_OFFSET = re.compile(rb"[0-9]{1,18}")


class Page(NamedTuple):
    """A serialised page, and its ETag if it is served with one."""

    body: bytes
    etag: str = ""


class Listing(Generic[M]):
    """The methods that one set of permissions makes visible, in the order of registration.

    :param callable: All of them; those that are listed are in ``methods``.
    :param is_lazy: Their texts depend on the locale of the request.
    """

    def __init__(self, callable: tuple[M, ...], *, is_lazy: bool) -> None:
        self.callable = callable
        self.methods = tuple(method for method in callable if method.listed)
        self.is_lazy = is_lazy
        self._pages: dict[tuple[str, int, int], Page] = {}
        self._document: bytes | None = None

    def document(self, make: Callable[[tuple[M, ...]], bytes]) -> bytes:
        """Return the description of all callable methods from the cache, or from ``make(callable)``."""
        if self._document is None or self.is_lazy:
            self._document = make(self.callable)
        return self._document

    def page(self, form: str, offset: int, size: int, make: Callable[[tuple[M, ...], str | None], Page]) -> Page:
        """Return a page from the cache, or from ``make(methods, next_cursor)``.

        :param form: Part of the cache key: the face and version that ``make`` describes the methods for.
        """
        key = (form, offset, size)
        page = self._pages.get(key)
        if page is None:
            end = offset + size
            page = make(self.methods[offset:end], encode_cursor(end) if end < len(self.methods) else None)
            # Only these offsets, because a client can send any. Lazy texts depend on the request.
            if offset % size == 0 and offset < len(self.methods) and not self.is_lazy:
                self._pages[key] = page
        return page


@dataclass
class _Snapshot(Generic[M]):
    """The listings of one version of a collection, by permissions."""

    version: tuple[int, int]
    permissions: frozenset[str]
    listings: dict[frozenset[str], Listing[M]] = field(default_factory=dict)


class Collection(Generic[M]):
    """The methods of one kind, in the order of registration."""

    def __init__(self) -> None:
        self._methods: dict[str, M] = {}
        self._versions = itertools.count(1)
        self._version = 0
        self.is_lazy = False
        self._lock = threading.Lock()
        self._snapshot: _Snapshot[M] = _Snapshot((-1, 0), frozenset())

    def __iter__(self) -> Iterator[M]:
        return iter(list(self._methods.values()))  # a copy, because another thread may add one meanwhile

    def __len__(self) -> int:
        return len(self._methods)

    def get(self, name: str) -> M | None:
        return self._methods.get(name)

    def add(self, method: M) -> None:
        """Add a method.

        :raises ValueError: if its name is taken.
        """
        taken = self._methods.get(method.name)
        if taken is not None:
            raise ValueError(
                f"{name_of(method.func)}: the name {method.name!r} already belongs to {name_of(taken.func)};"
                " give one of them another name"
            )
        self.check(method)
        self._methods[method.name] = method
        self.is_lazy = self.is_lazy or has_lazy_text(method.descriptor)
        self._version = next(self._versions)

    def remove(self, name: str) -> M:
        """Remove a method and return it.

        :raises KeyError: if there is no such name.
        """
        removed = self._methods.pop(name)
        self._version = next(self._versions)
        return removed

    def check(self, method: M) -> None:
        """Check what depends on the other methods.

        :raises ValueError: naming the function and the fix.
        """

    def candidates(self, name: str) -> tuple[M, ...]:
        """Return the methods that a name can mean, best first."""
        method = self._methods.get(name)
        return () if method is None else (method,)

    def find(self, name: str, caller: Caller, *, listed_only: bool = True) -> M:
        """Find a method by name.

        :param listed_only: Ignore methods that are not listed.
        :raises MethodNotFound: if there is none, or none visible to this caller.
        """
        for method in self.candidates(name):
            if method.access <= caller.permissions and (method.listed or not listed_only):
                return method
        raise SignInRequired(name) if caller.may_sign_in else MethodNotFound(name)

    def callable_by(self, caller: Caller) -> tuple[M, ...]:
        """Return all methods that a caller may call, listed or not."""
        return self.listing_for(caller).callable

    def listing_for(self, caller: Caller) -> Listing[M]:
        """Return the methods that a caller may call, and those of them that it sees in the list."""
        snapshot = self._current_snapshot()
        permissions = caller.permissions & snapshot.permissions
        listing = snapshot.listings.get(permissions)
        if listing is None:
            listing = Listing(tuple(method for method in self if method.access <= permissions), is_lazy=self.is_lazy)
            with self._lock:
                if len(snapshot.listings) >= MAX_LISTINGS:
                    del snapshot.listings[next(iter(snapshot.listings))]
                snapshot.listings[permissions] = listing
        return listing

    def _current_snapshot(self) -> _Snapshot[M]:
        # The version is read first: if a method is added meanwhile, this snapshot is out of date and is replaced.
        snapshot, version = self._snapshot, (self._version, marks.count)
        if snapshot.version != version:
            permissions = frozenset().union(*(method.access for method in self))
            snapshot = self._snapshot = _Snapshot(version, permissions)
        return snapshot


class Methods(Collection[Method]):
    """The methods that are called by name. Some are tools."""

    def __init__(self) -> None:
        super().__init__()
        self.has_aliases = False
        self._alias_index: tuple[tuple[int, int], dict[str, str]] = ((-1, 0), {})

    def check(self, method: Method) -> None:
        tool = method.tool
        if tool is None:
            return
        if method.name in RESERVED_TOOL_NAMES:
            raise ValueError(
                f"{name_of(method.func)}: a tool cannot be called {method.name!r}, because /mcp/tools/{method.name}"
                " is a path of its own; give the method another name"
            )
        if tool.confirm is not None and not is_lazy(tool.confirm):
            with naming(method.func):
                check_placeholders(tool.confirm, method.params.schema["properties"])
        taken = self._aliases().get(alias_of(method.name), method.name) if self.has_aliases else method.name
        if taken != method.name:
            raise ValueError(
                f"{name_of(method.func)}: without dots, {method.name!r} and {taken!r} are both"
                f" {alias_of(method.name)!r}; rename one of them, or leave JSONRPC_MCP_TOOL_NAME_STYLE as it is"
            )

    def check_all(self) -> None:
        """Check the tools again when the blueprint is registered: ``mcp_tool`` may stand above ``rpc.method``."""
        for method in self:
            self.check(method)

    def name_behind(self, alias: str) -> str:
        """Return the name of the tool with an alias; any other name is returned as it is."""
        return alias if alias in self._methods else self._aliases().get(alias, alias)

    def _aliases(self) -> dict[str, str]:
        (version, aliases), current = self._alias_index, (self._version, marks.count)
        if version != current:
            version, aliases = current, {}
            for method in self:
                if method.listed:
                    aliases.setdefault(alias_of(method.name), method.name)
            self._alias_index = version, aliases
        return aliases


class Templates(Collection[Resource]):
    """Resources with a URI template, found by any URI that matches."""

    def candidates(self, name: str) -> tuple[Resource, ...]:
        return tuple(r for r in self if r.template is not None and r.template.match(name) is not None)


class Resources:
    """All resources: those with one URI, and those with a template."""

    def __init__(self) -> None:
        self.fixed: Collection[Resource] = Collection()
        self.templates = Templates()

    def __len__(self) -> int:
        return len(self.fixed) + len(self.templates)

    def __iter__(self) -> Iterator[Resource]:
        return itertools.chain(self.fixed, self.templates)

    def candidates(self, name: str) -> tuple[Resource, ...]:
        return (*self.fixed.candidates(name), *self.templates.candidates(name))

    def collection_for(self, uri: str) -> Collection[Resource]:
        return self.templates if is_template(uri) else self.fixed

    def find(self, name: str, caller: Caller, *, listed_only: bool = True) -> Resource:
        """Find the resource that serves a URI.

        :raises MethodNotFound: if there is none, or none visible to this caller.
        """
        try:
            return self.fixed.find(name, caller)
        except MethodNotFound:
            return self.templates.find(name, caller)


class Registry:
    """Everything that one blueprint has registered, and who may use it.

    :param name: The name of the blueprint.
    """

    def __init__(self, name: str, auth: Authenticator, rate_limits: RateLimits) -> None:
        self.name = name
        self.auth = auth
        self.rate_limits = rate_limits
        self.methods = Methods()
        self.prompts: Collection[Prompt] = Collection()
        self.resources = Resources()
        self.completers: Collection[Completer] = Collection()
        self.error_handlers = ErrorHandlers()
        self.around: list[Hook] = []
        self.around_requests: list[RequestHook] = []
        self.around_questions: list[QuestionHook] = []
        self.call_observers: list[CallObserver] = []
        self.session_observers: list[Callable[[str, float], None]] = []
        """Called with the protocol version and the seconds when a client on stdio from before 2026-07-28 is gone."""
        self.queue_depths: dict[str, Callable[[], int]] = {}
        """How many tasks wait in each queue, for the metrics."""
        self.metrics_access: frozenset[str] = frozenset()
        """The permissions that a caller needs to read the metrics, for the doctor."""
        self.readiness: dict[str, Callable[[], float | None]] = {}
        """What ``/mcp/health?ready`` checks. Each returns how many seconds ago it was reached, or raises."""
        self.pending: list[Callable[[], None]] = []
        """What registers tools when the app has all its routes: before the first request to this blueprint."""
        self.is_loading = False
        self._loading_lock = threading.RLock()
        self.extensions: dict[str, Any] = {}
        """The MCP extensions that this blueprint uses, by their ids; see `mcp.extensions`."""
        self.task_engine: Any = None
        """The engine of its tasks, if it is not that of ``JSONRPC_MCP_TASKS``."""
        self.task_meta: list[Callable[[], Mapping[str, str]]] = []
        """What is added to the ``_meta`` of a task's call, such as the ``traceparent`` of the creating request."""
        self.carry: Callable[[], Any] | None = None
        """What a task keeps of the request that creates it, for ``restore`` in the worker."""
        self.restore: Callable[[Any], Any] | None = None
        self.warned: set[str] = set()
        """The tools that the log has suggested ``streams=True`` for."""
        self.finders: dict[str, Collection[Any] | Resources] = {
            METHOD: self.methods,
            PROMPT: self.prompts,
            RESOURCE: self.resources,
            COMPLETION: self.completers,
        }

    def __iter__(self) -> Iterator[Method]:
        return itertools.chain(self.methods, self.prompts, self.resources, self.completers)

    def load(self) -> None:
        """Call what is pending, in the context of a request. What raises is called again by the next request."""
        with self._loading_lock:
            if self.is_loading:
                return  # a function that returns an OpenAPI document makes a request to this app
            self.is_loading = True
            try:
                while self.pending:
                    self.pending[0]()
                    del self.pending[0]
            finally:
                self.is_loading = False

    @property
    def permissions(self) -> frozenset[str]:
        """All permissions that anything registered here needs."""
        return self.auth.discover_access.union(*(method.access for method in self))

    @property
    def scopes(self) -> frozenset[str]:
        """All OAuth scopes that anything registered here needs."""
        return frozenset().union(*(method.scopes for method in self))

    def remove_completers(self, completed: Method) -> None:
        """Remove the completers of a prompt or resource that was removed."""
        for argument in completed.params.schema["properties"]:
            if self.completers.get(completer_name(completed.name, argument)) is not None:
                self.completers.remove(completer_name(completed.name, argument))


def alias_of(name: str) -> str:
    """Return the name of a tool for clients that do not accept dots."""
    return name.replace(".", "_")


def encode_cursor(offset: int) -> str:
    """Encode an offset as a cursor: its decimal digits in base64."""
    return base64.b64encode(str(offset).encode("ascii")).decode("ascii")


def decode_cursor(cursor: str) -> int:
    """Decode a cursor, with or without padding.

    :raises InvalidCursor: for anything that :func:`encode_cursor` does not return.
    """
    bare = cursor.rstrip("=")
    try:
        digits = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor() from error
    if not _OFFSET.fullmatch(digits) or encode_cursor(int(digits)) not in (cursor, cursor + "=" * (-len(cursor) % 4)):
        raise InvalidCursor()
    return int(digits)
