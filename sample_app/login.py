"""The login page, for the site itself and for AI clients that sign in with OAuth."""

from __future__ import annotations

import hmac
import secrets
from urllib.parse import urlsplit

from flask import (
    Flask,
    Response,
    abort,
    current_app,
    make_response,
    redirect,
    render_template,
    request,
    session,
    url_for,
)

from .auth import verify_password
from .config import allows_demo_users
from .demo_users import DEMO_USERS

# Without form-action: in Chrome it also forbids redirects after the form was sent, and these may lead to an AI client.
POLICY = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"

OLD_FORM = "This page was open for too long. Please try again."
WRONG = "The user name or the password is wrong."


def init_app(app: Flask) -> None:
    app.add_url_rule("/login", "login", login, methods=["GET", "POST"])
    app.add_url_rule("/logout", "logout", logout, methods=["POST"])


def login() -> Response:
    """Sign a user in, and redirect to the page in ``next``."""
    if request.method != "POST":
        return _page(200)
    if not _is_own_form():
        return _page(400, OLD_FORM)
    user = verify_password(request.form.get("login", ""), request.form.get("password", ""))
    if user is None:
        return _page(403, WRONG)
    session.clear()
    session["user_id"] = user.id
    return make_response(redirect(_page_to_return_to(), 303))


def logout() -> Response:
    if not _is_own_form():
        abort(400)
    session.clear()
    return make_response(redirect(url_for("start"), 303))


def form_token() -> str:
    """Return the CSRF token, which is in the session and in each form."""
    if "form_token" not in session:
        session["form_token"] = secrets.token_urlsafe()
    token: str = session["form_token"]
    return token


def _is_own_form() -> bool:
    token: str | None = session.get("form_token")
    return token is not None and hmac.compare_digest(token.encode(), request.form.get("form_token", "").encode())


def _page_to_return_to() -> str:
    """Return the path in ``next``, if it is one of this site."""
    target = request.args.get("next", "")
    # To browsers, "//" and "/\\" start a host name; they remove tabs and line breaks first.
    is_own = (
        target.startswith("/") and not target.startswith(("//", "/\\")) and target.isascii() and target.isprintable()
    )
    return target if is_own else url_for("start")


def _page(status: int, problem: str | None = None) -> Response:
    page = render_template(
        "login.html",
        problem=problem,
        username=request.form.get("login", ""),
        form_token=form_token(),
        for_an_app=urlsplit(_page_to_return_to()).path == url_for("oauth.authorize"),
        users=DEMO_USERS if allows_demo_users(current_app) else (),
    )
    response = make_response(page, status)
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    return response
