"""The demo users. Their passwords and tokens are public."""

from __future__ import annotations

from dataclasses import dataclass

ROLES = {
    "administrator": (
        "create content",
        "edit content",
        "delete content",
        "administer content types",
        "administer site configuration",
    ),
    "editor": ("create content", "edit content"),
}
"""The permissions of each role."""


@dataclass(frozen=True)
class DemoUser:
    """A user to try the site with: ``curl -u username:password`` or ``-H 'Authorization: Bearer token'``."""

    username: str
    password: str
    token: str
    role: str


DEMO_USERS = (
    DemoUser("admin", "admin", "demo-admin-token", "administrator"),
    DemoUser("editor", "editor", "demo-editor-token", "editor"),
)


def is_demo_password(username: str, password: str) -> bool:
    return any((demo.username, demo.password) == (username, password) for demo in DEMO_USERS)


def is_demo_token(token: str) -> bool:
    return any(demo.token == token for demo in DEMO_USERS)
