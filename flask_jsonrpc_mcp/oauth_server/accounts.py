"""Find users of the app: who is signed in, which user has an id, and where the login page is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Response, current_app, redirect, request, url_for

from ..authentication import is_refused
from ..problems import MAX_QUOTED, one_line

DEFAULT_VIEW = "login"


@dataclass
class Accounts:
    """Finds users with the functions that the app has registered, or with Flask-Login.

    :param login_view: The endpoint of the login page; by default that of Flask-Login, or ``login``.
    """

    login_view: str | None = None
    signed_in: Callable[[], Any] | None = None
    user_loader: Callable[[str], Any] | None = None

    def find_problem(self) -> str | None:
        """Return why users cannot sign in, for the developer; ``None`` if they can."""
        manager = _login_manager()
        if self.signed_in is None and manager is None:
            return (
                "OAuthServer does not know who is signed in: use Flask-Login, or register a function with"
                " @oauth.signed_in that returns the id of the user who is signed in"
            )
        if self._asks_flask_login:
            is_known = manager.login_view or manager.unauthorized_callback
            return None if is_known else "Flask-Login does not know the login page: set login_manager.login_view"
        view = self.login_view or DEFAULT_VIEW
        if view not in current_app.view_functions:
            return f"the app has no view {view!r}: name the endpoint of your login page in OAuthServer(login_view=)"
        return None

    @property
    def _asks_flask_login(self) -> bool:
        return self.signed_in is None and self.login_view is None

    def current_id(self) -> str | None:
        """Return the id of the user who is signed in, or ``None``.

        :raises RuntimeError: if users cannot sign in; see `find_problem`.
        """
        problem = self.find_problem()
        if problem is not None:
            raise RuntimeError(problem)
        if self.signed_in is not None:
            user_id = current_app.ensure_sync(self.signed_in)()
        else:
            from flask_login import current_user

            user_id = current_user.get_id() if current_user.is_authenticated else None
        return None if user_id is None or user_id == "" else str(user_id)

    def load(self, user_id: str) -> Any:
        """Return the user with an id; ``None`` if the account is gone or closed, ``True`` without a ``user_loader``."""
        manager = _login_manager()
        loader = self.user_loader or (None if manager is None or self.signed_in else manager.user_callback)
        if loader is None:
            return True
        user = current_app.ensure_sync(loader)(user_id)
        # Flask-Login refuses inactive users too.
        return None if is_refused(user) or getattr(user, "is_active", True) is False else user

    def load_signed_in(self, user_id: str, level: int) -> Any:
        """Load a user who has signed in. If ``user_loader`` returns no user, log it: the function may be wrong."""
        user = self.load(user_id)
        if user is None:
            current_app.logger.log(
                level,
                "user_loader found no active user with the id %r, although this user has signed in. The id is a string:"
                " if your ids are numbers, look up int(user_id)",
                one_line(user_id, MAX_QUOTED),
            )
        return user

    def go_to_login(self) -> Response:
        """Redirect to the login page, with the current URL in ``next``."""
        if self._asks_flask_login:
            response: Response = current_app.make_response(_login_manager().unauthorized())
            return response
        query = request.query_string.decode("ascii", "replace")
        here = request.script_root + request.path + (f"?{query}" if query else "")
        return current_app.make_response(redirect(url_for(self.login_view or DEFAULT_VIEW, next=here)))


def _login_manager() -> Any:
    return getattr(current_app, "login_manager", None)
