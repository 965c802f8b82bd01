"""Find mistakes before a client does: in the tools, in the blueprints and in the settings of an app.

``flask mcp doctor`` prints the findings. `examine` returns them, for tests and scripts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from flask import Flask

from . import doctor_checks as checks
from .config import PREFIX
from .lookup import registries_of

__all__ = ["Finding", "examine"]

ERROR = "error"
"""Something breaks, or callers can use what they should not."""
WARNING = "warning"
"""Something breaks with some clients or in some deployments."""
INFO = "info"
"""Something works, but not as one would expect."""
SEVERITIES = (ERROR, WARNING, INFO)

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
    "task-required": (
        INFO,
        f"use task=True, so that clients without tasks can call the tool in a plain request, or set {PREFIX}TASK_WAIT",
    ),
    "task-user-loader": (
        WARNING,
        "register a function with @rpc.user_loader that returns the same user as your sign-in does",
    ),
    "task-worker": (WARNING, "start flask mcp worker, or a worker of your engine, and keep it running"),
    "task-database": (
        ERROR,
        f"set {PREFIX}TASKS_DATABASE to a database that all machines can reach, such as PostgreSQL",
    ),
    "task-celery": (WARNING, "install another version: celery != 5.7.0"),
}
"""The severity and the fix of each check, by its slug."""


@dataclass(frozen=True)
class Finding:
    """One mistake.

    :param slug: The id of the check, which stays the same; see ``JSONRPC_MCP_DOCTOR_IGNORE``.
    :param severity: ``error``, ``warning`` or ``info``.
    :param why: What will happen, and to which callers.
    :param fix: What to do about it.
    :param tool: The tool it is about; ``None`` if it is about the blueprint or the whole app.
    :param blueprint: The blueprint it is about; ``None`` if it is about the whole app.
    """

    slug: str
    severity: str
    why: str
    fix: str
    tool: str | None = None
    blueprint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object that always has every member."""
        return asdict(self)

    def __str__(self) -> str:
        about = "" if self.tool is None else f" ({self.tool})"
        return f"{self.slug}{about}: {self.why}; {self.fix}"


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

    def add(problems: Iterable[checks.Problem], *about: str | None) -> None:
        for slug, why in problems:
            findings.append(Finding(slug, CHECKS[slug][0], why, CHECKS[slug][1], *about))

    for name, registry in registries.items():
        add(checks.check_endpoints(registry, app), None, name)
        for method in registry.methods:
            if method.listed:
                add(checks.check_tool(method, registry, app), method.name, name)
    if not tools_only:
        for name, registry in registries.items():
            add(checks.check_blueprint(name, registry, app), None, name)
        add(checks.check_app(app, registries.values()))
    return [found for found in findings if not ignored & {found.slug, f"{found.slug}:{found.tool}"}]


def by_problem(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group the findings that differ only in what they are about, errors first."""
    rank = {slug: (SEVERITIES.index(severity), number) for number, (slug, (severity, _)) in enumerate(CHECKS.items())}
    groups: dict[tuple[str, str], list[Finding]] = {}
    for found in sorted(findings, key=lambda found: rank[found.slug]):
        groups.setdefault((found.slug, found.why), []).append(found)
    return list(groups.values())
