"""The checks of the doctor. Each yields problems; `doctor.CHECKS` has their severities and fixes."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from werkzeug.middleware.proxy_fix import ProxyFix

from .auth import SIGNED_IN
from .checks import name_of
from .config import DEFAULTS, GET_ALL, PREFIX
from .errors import RpcError
from .http.routes import preprocess_request
from .lookup import did_you_mean, load_tools, local_request_context, mcp_path
from .mcp.protocol import MODERN
from .mcp.versions import describe_tool
from .method import Method, marks
from .openapi.tools import endpoint_of
from .origins import host_name, is_loopback, read_origin
from .registry import Registry
from .schema.walk import walk
from .strict_json import to_plain, write
from .task_options import TASKS_EXTENSION

Problem = tuple[str, str]
"""The slug of a check, and why it matters."""

BYTES_PER_TOKEN = 4
"""An estimate: models split a JSON description into tokens of about this size."""
MAX_NAME_LENGTH = 64
"""The longest tool name that all model APIs accept."""
MAX_TOOL_BYTES = 8 * 1024
"""Maximum size of a tool's description and schemas, about 2,000 tokens of every conversation."""
MAX_TOOLS_BYTES = 100 * 1024
"""Maximum size of all tools together, about 25,000 tokens before a conversation has begun."""
MAX_MIDDLEWARES = 20
FACES = (("mcp", "POST"), ("jsonrpc", "POST"), ("list_tools", "GET"), ("invoke_tool", "POST"))
"""The endpoints that clients use, with the HTTP method."""
OTHER_ORIGIN = "https://page.example"
"""An origin that no app allows by name."""
HOST_SETTINGS = (PREFIX + "ALLOWED_HOSTS", "TRUSTED_HOSTS", "SERVER_NAME")

NOT_PLAIN = ("oneOf", "anyOf", "allOf", "not", "if", "enum", "const", "$ref", "$dynamicRef", "dependentSchemas")
"""Keywords that model APIs refuse at the top level of an inputSchema."""

WRITING_WORD = re.compile(
    "append|cancel|clear|create|delete|disable|edit|enable|erase|insert|modify|move|patch|publish|purge|put|rebuild"
    "|remove|rename|replace|reset|save|send|set|store|submit|truncate|update|upload|upsert|write"
)

WAITS_LONG = 30
"""Seconds after which a worker should have started a queued task."""

BROKEN_CELERY = "5.7.0"

MOUNTS = Path("/proc/mounts")
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs", "afs")

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[(?:\\.|[^\]])*\]")
_UNBOUNDED_REPEAT = re.compile(r"[*+]|\{\d*,\}")


def check_endpoints(registry: Registry, app: Flask) -> Iterator[Problem]:
    """Make the tools of ``add_view`` and ``add_openapi``, as the first request does."""
    try:
        load_tools(registry, app)
    except LookupError as error:
        yield "no-endpoint", f"{error}, so every request to this blueprint fails"


def check_tool(method: Method, registry: Registry, app: Flask) -> Iterator[Problem]:
    described = describe_tool(method.descriptor, MODERN, app.config[PREFIX + "TOOL_NAME_STYLE"])
    if "." in described["name"]:
        yield "name-dots", "some clients and model APIs accept only letters, digits, '_' and '-' in the name of a tool"
    length = len(method.name)
    if length > MAX_NAME_LENGTH:
        yield "name-long", f"the name has {length} characters, and model APIs accept at most {MAX_NAME_LENGTH}"
    if method.description == method.name:
        yield "no-description", "a model chooses a tool by its description, and without one it has only the name"
    size = len(write(described))
    if size > MAX_TOOL_BYTES:
        tokens = f"about {size // BYTES_PER_TOKEN:,} tokens of every conversation that includes it"
        yield "schema-huge", f"its description and schemas take {size:,} bytes, {tokens}"
    yield from _check_schemas(described)
    try:
        endpoint = endpoint_of(method.func)
        if endpoint is not None:
            endpoint.find(app)
    except LookupError as error:
        yield "no-endpoint", f"{error}, so every call fails"

    destroys = described.get("annotations", {}).get("destructiveHint") is True
    words = [word for word in map(str.lower, _WORD.findall(method.name)) if WRITING_WORD.fullmatch(word)]
    reads = "read-only, so GET runs it and clients do not ask the user first"
    if method.read_only and destroys:
        yield "read-only-destructive", f"it is both destructive and {reads}"
    if method.read_only and words:
        yield "read-only-name", f"its name says {words[0]!r}, but it is {reads}"

    missing = _never_granted(method.access, registry)
    if missing:
        yield "no-permissions", f"it needs {_some(missing)}, but no function returns the permissions of callers"
    # Flask-Caching's memoize() adds delete_memoized as well.
    if hasattr(method.func, "make_cache_key") and not hasattr(method.func, "delete_memoized"):
        yield (
            "cached-by-path",
            "@cache.cached() caches by URL, and all tools have the same URL, so it may return another tool's result",
        )

    if registry.auth.sign_ins and not registry.auth.required and not (method.access or method.scopes):
        public = "anyone can call it without signing in"
        if method.read_only:
            yield "public-read", public
        else:
            yield "public-write", f"{public}, and it may change something, because it is not read-only"

    task = None if method.tool is None else method.tool.task
    if task is not None and task.required and not app.config[PREFIX + "TASK_WAIT"]:
        yield "task-required", "most AI clients do not support tasks today, and cannot call it"


def _never_granted(access: frozenset[str], registry: Registry) -> list[str]:
    """List the permissions that no caller of a blueprint can have."""
    needed = access - {SIGNED_IN} if registry.auth.sign_ins else access
    return sorted(needed) if SIGNED_IN in needed or not registry.auth.grants_permissions else []


def _check_schemas(described: dict[str, Any]) -> Iterator[Problem]:
    for role in ("inputSchema", "outputSchema"):
        if any("$ref" in part or "$dynamicRef" in part for part in walk(_without_definitions(described.get(role, {})))):
            yield "schema-ref", f"its {role} has a $ref that cannot be inlined, and many clients read it as 'anything'"
    schema = _without_definitions(described["inputSchema"])
    refused = " and ".join(keyword for keyword in NOT_PLAIN if keyword in schema)
    if refused:
        yield "schema-not-plain", f"its inputSchema has {refused} at the top level, where model APIs refuse it"
    arguments = {f"argument {name!r}": argument for name, argument in schema.pop("properties", {}).items()}
    for name, argument in {**arguments, "inputSchema": schema}.items():
        parts = walk(argument) if isinstance(argument, dict) else ()
        patterns = [pattern for part in parts for pattern in _patterns_without_limit(part)]
        # A pattern such as ^[a-z]{1,8}$ bounds the work by itself.
        if any(_UNBOUNDED_REPEAT.search(_ESCAPE_OR_CLASS.sub("", pattern)) for pattern in patterns):
            yield (
                "schema-pattern",
                f"its {name} has a pattern and no maxLength, and matching a long text may take very long",
            )


def _patterns_without_limit(schema: Mapping[str, Any]) -> list[str]:
    names = schema.get("propertyNames")
    of_value = [schema["pattern"]] if "pattern" in schema and "maxLength" not in schema else []
    of_names = [] if isinstance(names, dict) and "maxLength" in names else schema.get("patternProperties", ())
    return [*of_value, *of_names]


def _without_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out ``$defs``, which stay after the references to them were inlined."""
    return {keyword: value for keyword, value in schema.items() if keyword != "$defs"}


def check_blueprint(name: str, registry: Registry, app: Flask) -> Iterator[Problem]:
    methods, page_size = list(registry.methods), app.config[PREFIX + "PAGE_SIZE"]
    sizes = [len(write(to_plain(method.descriptor))) for method in methods if method.listed]
    tools, size = len(sizes), sum(sizes)
    if tools > page_size:
        yield "many-tools", f"there are {tools} tools, {page_size} on a page, and many clients read only the first page"
    if size > MAX_TOOLS_BYTES:
        tokens = f"about {size // BYTES_PER_TOKEN:,} tokens"
        yield "tools-huge", f"a model reads {size:,} bytes, {tokens}, of {tools} tools before each conversation"
    writing = [method.name for method in methods if not method.read_only]
    if app.config[PREFIX + "GET_METHODS"] == GET_ALL and writing:
        yield "get-writes", f"GET runs every method, so a link that is opened in a browser can run {_some(writing)}"
    missing = _never_granted(registry.metrics_access, registry)
    if missing:
        yield "metrics-access", f"/mcp/metrics needs {_some(missing)}, which no caller can have, so it answers 404"
    streaming = [method.name for method in methods if method.streams]
    if streaming and find_spec("granian") is not None:
        why = f"the events of {_some(streaming)} arrive with the result"
        yield "granian-streams", f"under granian, which has no WSGI write callable, {why}"
    yield from _check_requests(app, name)
    with app.app_context():
        for sign_in in registry.auth.sign_ins:
            yield from sign_in.problems(mcp_path(app, name))
    if TASKS_EXTENSION in registry.extensions and registry.auth.sign_ins and registry.auth.user_loader is None:
        why = "without a user_loader, a worker knows only the name of a task's caller"
        yield "task-user-loader", f"{why}; if your users are not just names, calls of signed-in users fail"


def _check_requests(app: Flask, blueprint: str) -> Iterator[Problem]:
    """Check what the ``before_request`` and ``after_request`` functions of the app do to requests to our routes."""
    answered: dict[Problem, list[str]] = {}
    for endpoint, verb in FACES:
        [rule, *_] = app.url_map.iter_rules(f"{blueprint}.{endpoint}")
        problem = None if rule.arguments else _response_of_app(app, rule.rule, verb)
        if problem is not None:
            answered.setdefault(problem, []).append(rule.rule)
    for (slug, why), paths in answered.items():
        yield slug, why.replace("{}", ", ".join(paths), 1)

    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    known = app.config.get("CORS_ORIGINS", ())
    allowed = [None, *map(read_origin, app.config[PREFIX + "ALLOWED_ORIGINS"])]
    for origin in [OTHER_ORIGIN, *([known] if isinstance(known, str) else known)]:
        if read_origin(str(origin)) not in allowed and _allows_origin(app, rule.rule, str(origin)):
            whose = "any origin" if origin == OTHER_ORIGIN else origin
            why = f"the app's CORS headers allow pages of {whose}, but the blueprint answers them with 403"
            yield "cors-origins", why
            return


def _response_of_app(app: Flask, path: str, verb: str) -> Problem | None:
    """Return a problem, with ``{}`` for the path, if a ``before_request`` function answers in place of our view."""
    environ = {"wsgi.url_scheme": "https"} if _has_proxy_fix(app) else {}  # the proxy may end TLS
    # A function of the app may raise, because this is not a real request.
    with suppress(Exception), _request(app, path, method=verb, environ_overrides=environ) as response:
        if response is None:
            return None
        location = (response.location or "").partition("?")[0]
        if location == request.base_url.replace("http://", "https://", 1):
            why = f"requests over http to {{}} get {response.status} to https, and clients do not send a POST again"
            return "https-redirect", why
        if response.status_code == 400 and "csrf" in app.extensions:
            return "csrf", f"CSRFProtect answers {{}} with {response.status}, because clients have no CSRF token"
        seen = response.status + (f", Location: {location}" if location else "")
        why = f"a before_request function of the app answers {{}} with {seen} in place of the blueprint"
        return "before-request", why
    return None


def _allows_origin(app: Flask, path: str, origin: str) -> bool:
    """Return whether an ``after_request`` function, such as flask-cors', allows an origin."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    with suppress(Exception), _request(app, path, method="OPTIONS", headers=headers):
        response = app.process_response(app.response_class(status=403))
        return response.headers.get("Access-Control-Allow-Origin") in ("*", origin)
    return False


@contextmanager
def _request(app: Flask, path: str, **options: Any) -> Iterator[Response | None]:
    """Push a request context, call the ``before_request`` functions, and yield the response of one of them."""
    context = local_request_context(app, path, **options)
    with app.app_context(), context:
        yield preprocess_request(app, context)


def check_app(app: Flask, registries: Collection[Registry]) -> Iterator[Problem]:
    for name in [key.removeprefix(PREFIX) for key in app.config if key.startswith(PREFIX)]:
        if name not in DEFAULTS:
            yield "unknown-setting", f"no setting {PREFIX}... is called {name} ({did_you_mean(name, DEFAULTS)})"
    demo_users = list(app.config[PREFIX + "DEMO_USERS"])
    if demo_users and not (app.debug or app.testing):
        why = f"names {_some(demo_users)}, whose credentials anyone can read in the source"
        yield "demo-users", f"{PREFIX}DEMO_USERS {why}"
    if not app.config["SECRET_KEY"]:
        why = "clients from before 2026-07-28 get no session, and tools cannot ask the user anything"
        yield "no-secret-key", f"nothing can be signed: {why}"
    public = list(_public_settings(app))
    has_proxy_fix = _has_proxy_fix(app)
    if public and not has_proxy_fix:
        why = "behind a proxy, every caller would have the proxy's address, and URLs the wrong scheme and host"
        yield "no-proxy-fix", f"{public[0]} is set for a public site; {why}"
    if (public or has_proxy_fix) and not any(app.config[name] for name in HOST_SETTINGS):
        why = "with ProxyFix every Host is accepted, and without ProxyFix requests from a proxy get 403"
        yield "no-host-names", f"no setting names the hosts of this site: {why}"
    # Only in modules with registered functions: others may not be used at all.
    modules = {getattr(method.func, "__module__", None) for registry in registries for method in registry.methods}
    forgotten = sorted(name_of(func) for func in marks.unregistered if func.__module__ in modules)
    if forgotten:
        yield "unregistered-tool", f"{_some(forgotten)} has @mcp_tool and belongs to no blueprint, so no client sees it"
    if any(TASKS_EXTENSION in registry.extensions for registry in registries):
        yield from _check_tasks(app, registries)


def _public_settings(app: Flask) -> Iterator[str]:
    """Yield the names of settings that are set and that only a public site needs."""
    for name in HOST_SETTINGS:
        value = app.config[name]
        hosts: Iterable[str] = [value] if isinstance(value, str) else value or ()
        if not all(is_loopback(host_name(host.lstrip("."))) for host in hosts):
            yield name
    if app.config["PREFERRED_URL_SCHEME"] == "https":
        yield "PREFERRED_URL_SCHEME"


def _has_proxy_fix(app: Flask) -> bool:
    """Look for ProxyFix in the WSGI middlewares, as long as they have the wrapped app as an attribute."""
    layer: Any = app.wsgi_app
    # Limited, because a middleware that wraps the app itself instead of app.wsgi_app makes this a cycle.
    for _ in range(MAX_MIDDLEWARES):
        if isinstance(layer, ProxyFix):
            return True
        inner = (getattr(layer, name, None) for name in ("app", "wsgi_app", "application"))
        layer = next(filter(None, inner), None)
    return False


def _check_tasks(app: Flask, registries: Iterable[Registry]) -> Iterator[Problem]:
    """Check the engine, the workers and the database of tools with ``task=``."""
    engines = [app.config[PREFIX + "TASKS"], *(registry.task_engine for registry in registries)]
    uses_celery = any(engine == "celery" or type(engine).__name__ == "CeleryTasks" for engine in engines)
    if uses_celery and _installed("celery") == BROKEN_CELERY:
        yield "task-celery", f"a worker of celery {BROKEN_CELERY} ends when its Redis restarts while tasks run"
    from .tasks import tasks_of  # SQLAlchemy is an extra
    from .tasks.database import tasks
    from .tasks.records import QUEUED

    records = tasks_of(app).records
    file = Path(str(records.url.database)) if records.url.get_backend_name() == "sqlite" else None
    filesystem = None if file is None else network_filesystem(file)
    if filesystem is not None:
        yield "task-database", f"{file} is on a network disk ({filesystem}), where SQLite can lose or corrupt data"
    if file is not None and not file.exists():
        return  # no task was ever created, and the doctor must not create the file
    with suppress(RpcError):  # the database cannot be reached, and the log says so
        workers = records.seen_workers(WAITS_LONG)
        hosts = sorted({worker["host"] for worker in workers})
        if file is not None and len(hosts) > 1:
            yield "task-database", f"workers run on {', '.join(hosts)}, but SQLite is for one machine"
        now = time.time()
        waiting = (tasks.c.state == QUEUED, tasks.c.updated < now - WAITS_LONG, tasks.c.expires > now)
        if not workers and records.count(1, *waiting):
            yield "task-worker", "tasks wait, and no worker is running"


def network_filesystem(file: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the type of the network filesystem that a file is on; ``None`` if it is local or unknown."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return None  # not on Linux
    # A space in a path is written as \\040.
    found = [(Path(fields[1].replace("\\040", " ")), fields[2]) for fields in lines if len(fields) > 2]
    around = [(len(place.parts), kind) for place, kind in found if file.absolute().is_relative_to(place)]
    kind = max(around)[1] if around else ""
    return kind if kind in NETWORK_FILESYSTEMS else None


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _some(names: list[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
