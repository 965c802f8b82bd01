"""Find mistakes before a client does: in the tools, in the blueprints and in the settings of an app.

``flask mcp doctor`` prints the findings. `examine` returns them, for tests and scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from flask import Flask, Response, request
from werkzeug.middleware.proxy_fix import ProxyFix

from . import task_checks
from .auth import SIGNED_IN
from .checks import name_of
from .config import DEFAULTS, GET_ALL, PREFIX
from .doctor_findings import ERROR, INFO, SEVERITIES, WARNING, Finding, Problem
from .http.routes import preprocess_request
from .lookup import did_you_mean, load_tools, local_request_context, registries_of
from .mcp.protocol import MODERN
from .mcp.versions import describe_tool
from .method import Method, marks
from .openapi.findings import missing_endpoint, size_of_tools
from .origins import host_name, is_loopback, read_origin
from .registry import Registry
from .schema.walk import walk
from .strict_json import write

__all__ = ["Finding", "examine"]

CHECKS = {
    "name-dots": (WARNING, f"set {PREFIX}TOOL_NAME_STYLE = 'no-dots', or choose a name without dots"),
    "name-long": (ERROR, "give the method a shorter name"),
    "no-description": (WARNING, "write a docstring, or pass description="),
    "schema-ref": (WARNING, "avoid types that contain themselves"),
    "schema-huge": (WARNING, "take fewer arguments, shorten texts, or split the tool"),
    "schema-not-plain": (ERROR, "move the alternatives into a property, or make a tool of each"),
    "schema-pattern": (WARNING, "add maxLength next to the pattern"),
    "read-only-destructive": (ERROR, "remove the hint that is wrong"),
    "read-only-name": (WARNING, "remove read_only=True, or rename the method"),
    "public-write": (ERROR, "list the permissions that callers need in access=[...]"),
    "public-read": (
        WARNING,
        "list the permissions that callers need in access=[...], or ignore this if everyone may call it",
    ),
    "no-permissions": (
        ERROR,
        "register @rpc.permissions_loader, or get_user_roles of the auth object, or remove access=",
    ),
    "metrics-access": (
        ERROR,
        "pass auth= with users who have these permissions, or Prometheus(access=[]) if only Prometheus can reach the"
        " server",
    ),
    "cached-by-path": (ERROR, "use @cache.memoize(), which caches by function and arguments"),
    "unregistered-tool": (ERROR, "register it with @rpc.method, or write @rpc.tool in place of @mcp_tool"),
    "many-tools": (WARNING, f"raise {PREFIX}PAGE_SIZE, or register fewer tools"),
    "tools-huge": (WARNING, "register fewer tools, shorten their texts, or choose less in add_openapi(include=...)"),
    "no-endpoint": (
        ERROR,
        "correct the endpoint or the path in the document, or register the API on this app",
    ),
    "get-writes": (ERROR, f"set {PREFIX}GET_METHODS = 'read-only'"),
    "granian-streams": (INFO, "use another WSGI server if clients need the events at once"),
    "csrf": (ERROR, "remove csrf_exempt=False, or call csrf.exempt(rpc)"),
    "https-redirect": (
        WARNING,
        "give clients the https URL, and wrap the app in ProxyFix if a proxy ends TLS; to use http on your own machine,"
        " Talisman(app, force_https=False)",
    ),
    "before-request": (
        WARNING,
        'begin that function with: if request.blueprint == "mcp": return None (the name of the McpBlueprint), and'
        " protect the tools with auth= and access=",
    ),
    "cors-origins": (INFO, f"list the origins of your pages in {PREFIX}ALLOWED_ORIGINS, if they use the tools"),
    "demo-users": (WARNING, f"remove these users, then set {PREFIX}DEMO_USERS = []"),
    "no-login-manager": (ERROR, "call LoginManager(app), or init_app of the extension that brings it"),
    "oauth-public-url": (WARNING, f"set {PREFIX}PUBLIC_URL, such as 'https://site.example'"),
    "oauth-issuer": (
        WARNING,
        "compare the issuer of the OAuthResource with the server's own metadata, and check that it runs",
    ),
    "oauth-clients": (WARNING, "change this in the authorization server, or register your clients there by hand"),
    "oauth-metadata": (
        WARNING,
        f"check {PREFIX}PUBLIC_URL; if the app is mounted below a path, let the proxy pass this URL on to the app",
    ),
    "oauth-server": (ERROR, "register it: app.register_blueprint(oauth)"),
    "oauth-login": (ERROR, "use Flask-Login, or register @oauth.signed_in and pass OAuthServer(login_view=...)"),
    "oauth-cookie": (WARNING, "set SESSION_COOKIE_SAMESITE = 'Lax'"),
    "oauth-grants": (ERROR, "let the app write to this file or database, or pass another with OAuthServer(grants=...)"),
    "unknown-setting": (WARNING, "correct its name, or remove it"),
    "no-secret-key": (WARNING, "set SECRET_KEY, the same in every process"),
    "no-proxy-fix": (WARNING, "wrap the app: app.wsgi_app = ProxyFix(app.wsgi_app, ...)"),
    "no-host-names": (INFO, f"set {PREFIX}ALLOWED_HOSTS, such as ['site.example']"),
    **task_checks.CHECKS,
}
"""The severity and the fix of each check, by its slug."""

MAX_NAME_LENGTH = 64
"""The longest tool name that all model APIs accept."""
MAX_TOOL_BYTES = 8 * 1024
"""Maximum size of a tool's description and schemas, about 2,000 tokens of every conversation."""
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

_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[(?:\\.|[^\]])*\]")
_UNBOUNDED_REPEAT = re.compile(r"[*+]|\{\d*,\}")


def examine(app: Flask, *, ignore: Iterable[str] | None = None, tools_only: bool = False) -> list[Finding]:
    """Find mistakes in an app before a client does.

    :param ignore: Checks to leave out: slugs such as ``"name-dots"``, or ``"name-dots:articles.get"`` for one tool.
        By default the setting ``JSONRPC_MCP_DOCTOR_IGNORE``.
    :param tools_only: Check the tools alone, without the settings and the app around them.
    :raises ValueError: if a slug does not exist.
    :raises LookupError: if the app has no `McpBlueprint`.
    """
    registries = registries_of(app, load=False)
    ignored = frozenset(app.config[PREFIX + "DOCTOR_IGNORE"] if ignore is None else ignore)
    unknown = sorted(entry for entry in ignored if entry.partition(":")[0] not in CHECKS)
    if unknown:
        raise ValueError(f"there is no check {unknown[0]!r} to ignore; the checks are {', '.join(CHECKS)}")
    findings: list[Finding] = []

    def add(problems: Iterable[Problem], *about: str | None) -> None:
        for slug, why in problems:
            findings.append(Finding(slug, CHECKS[slug][0], why, CHECKS[slug][1], *about))

    for name, registry in registries.items():
        add(_check_endpoints(registry, app), None, name)
        for method in registry.methods:
            if method.listed:
                add(_check_tool(method, registry, app), method.name, name)
                add(task_checks.check_tool(method, app), method.name, name)
    if not tools_only:
        for name, registry in registries.items():
            add(_check_blueprint(registry, app), None, name)
            add(_check_requests(app, name), None, name)
            add(_check_sign_in(registry, app, name), None, name)
            add(task_checks.check_blueprint(registry), None, name)
        add(_check_app(app))
        add(task_checks.check_app(app, list(registries.values())))
        add(_check_marks(registries.values()))
    return [found for found in findings if not ignored & {found.slug, f"{found.slug}:{found.tool}"}]


def by_problem(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group the findings that differ only in what they are about, errors first."""
    rank = {slug: (SEVERITIES.index(severity), number) for number, (slug, (severity, _)) in enumerate(CHECKS.items())}
    groups: dict[tuple[str, str], list[Finding]] = {}
    for found in sorted(findings, key=lambda found: rank[found.slug]):
        groups.setdefault((found.slug, found.why), []).append(found)
    return list(groups.values())


def _check_endpoints(registry: Registry, app: Flask) -> Iterator[Problem]:
    try:
        load_tools(registry, app)
    except LookupError as error:
        yield "no-endpoint", f"{error}, so every request to this blueprint fails"


def _check_tool(method: Method, registry: Registry, app: Flask) -> Iterator[Problem]:
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
        tokens = f"about {size // 4:,} tokens of every conversation that includes it"
        yield "schema-huge", f"its description and schemas take {size:,} bytes, {tokens}"
    yield from _check_schemas(described)
    yield from missing_endpoint(method.func, app)

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


def _check_blueprint(registry: Registry, app: Flask) -> Iterator[Problem]:
    methods, size = list(registry.methods), app.config[PREFIX + "PAGE_SIZE"]
    tools = sum(method.listed for method in methods)
    if tools > size:
        yield "many-tools", f"there are {tools} tools, {size} on a page, and many clients read only the first page"
    yield from size_of_tools([method.descriptor for method in methods if method.listed])
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
    is_secure = any(isinstance(layer, ProxyFix) for layer in _middlewares(app))  # a proxy, which may end TLS
    environ = {"wsgi.url_scheme": "https"} if is_secure else {}
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


def _check_sign_in(registry: Registry, app: Flask, blueprint: str) -> Iterator[Problem]:
    [rule, *_] = app.url_map.iter_rules(f"{blueprint}.mcp")
    with app.app_context():
        for sign_in in registry.auth.sign_ins:
            yield from sign_in.problems(None if rule.arguments else rule.rule)


def _check_marks(registries: Iterable[Registry]) -> Iterator[Problem]:
    """Find functions with ``@mcp_tool`` that are not registered, in modules with registered functions."""
    modules = {getattr(method.func, "__module__", None) for registry in registries for method in registry.methods}
    forgotten = sorted(name_of(func) for func in marks.unregistered if func.__module__ in modules)
    if forgotten:
        yield "unregistered-tool", f"{_some(forgotten)} has @mcp_tool and belongs to no blueprint, so no client sees it"


def _check_app(app: Flask) -> Iterator[Problem]:
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
    has_proxy_fix = any(isinstance(layer, ProxyFix) for layer in _middlewares(app))
    if public and not has_proxy_fix:
        why = "behind a proxy, every caller would have the proxy's address, and URLs the wrong scheme and host"
        yield "no-proxy-fix", f"{public[0]} is set for a public site; {why}"
    if (public or has_proxy_fix) and not any(app.config[name] for name in HOST_SETTINGS):
        why = "with ProxyFix every Host is accepted, and without ProxyFix requests from a proxy get 403"
        yield "no-host-names", f"no setting names the hosts of this site: {why}"


def _public_settings(app: Flask) -> Iterator[str]:
    """Yield the names of settings that are set and that only a public site needs."""
    for name in HOST_SETTINGS:
        value = app.config[name]
        hosts: Iterable[str] = [value] if isinstance(value, str) else value or ()
        if not all(is_loopback(host_name(host.lstrip("."))) for host in hosts):
            yield name
    if app.config["PREFERRED_URL_SCHEME"] == "https":
        yield "PREFERRED_URL_SCHEME"


def _middlewares(app: Flask) -> Iterator[Any]:
    """Yield the WSGI middlewares from the outermost, as long as they have the wrapped app as an attribute."""
    layer: Any = app.wsgi_app
    # Limited, because a middleware that wraps the app itself instead of app.wsgi_app makes this a cycle.
    for _ in range(MAX_MIDDLEWARES):
        yield layer
        inner = (getattr(layer, name, None) for name in ("app", "wsgi_app", "application"))
        layer = next(filter(None, inner), None)


def _some(names: list[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
