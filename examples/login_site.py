r"""A site with Flask-Login and AI clients: people sign in with a cookie, their clients with a token.

    $ flask --app login_site run
    $ curl -c cookies.txt http://127.0.0.1:5000/login -d username=ada -d password=lovelace
    Signed in
    $ curl -b cookies.txt http://127.0.0.1:5000/notes -d text='Buy bread'
    Noted
    $ TOKEN=$(curl -b cookies.txt -X POST http://127.0.0.1:5000/token)
    $ curl http://127.0.0.1:5000/mcp/tools/invoke -H "Authorization: Bearer $TOKEN" \
        -H 'Content-Type: application/json' -d '{"name": "notes_list", "arguments": {}}'
    {"result": ["Buy bread"]}
    $ curl -b cookies.txt http://127.0.0.1:5000/mcp/tools/invoke \
        -H 'Content-Type: application/json' -d '{"name": "notes_list", "arguments": {}}'
    {"error": {"code": "unauthorized", "message": "Valid credentials are required"}}

The last response matters. A cookie opens the tools only to requests that a script of this site's own pages has sent:
browsers mark them with a header that no script can set, and curl does not send it. So no page of another site can call
a tool in the name of a visitor, and the tools need no CSRF tokens. In a tool, Flask-Login's ``current_user`` is the
user of the token or of an accepted cookie.

The forms of the site need protection of their own: here ``SameSite``, and Flask-WTF's tokens in a real site.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Annotated

from flask import Flask, abort, request
from flask_httpauth import HTTPTokenAuth
from flask_login import LoginManager, UserMixin, current_user, login_required, login_user
from werkzeug.security import check_password_hash, generate_password_hash

from flask_jsonrpc_mcp import McpBlueprint
from flask_jsonrpc_mcp.sign_in import FlaskLoginAuth


@dataclass(eq=False)
class User(UserMixin):  # type: ignore[misc]
    """A user. A real site has a table of them."""

    id: str
    password_hash: str
    token_digest: str = ""
    notes: list[str] = field(default_factory=list)


USERS = {"ada": User("ada", generate_password_hash("lovelace")), "bob": User("bob", generate_password_hash("builder"))}


def digest_of(token: str) -> str:
    """Hash a token. It is long and random, so a fast hash does; a password needs a slow one."""
    return hashlib.sha256(token.encode()).hexdigest()


# The functions of the site. Both pages and tools call them.


def notes_of(user: User) -> list[str]:
    return list(user.notes)


def add_note(user: User, text: str) -> None:
    user.notes.append(text)


# The tools.

tokens = HTTPTokenAuth()
rpc = McpBlueprint(auth=[tokens, FlaskLoginAuth()], require_auth=True)


@tokens.verify_token
def verify_token(token: str) -> User | None:
    return next((user for user in USERS.values() if user.token_digest == digest_of(token)), None)


@rpc.tool("notes_list", title="List my notes", read_only=True)
def list_notes() -> list[str]:
    """List the notes of the user, oldest first."""
    return notes_of(current_user)


@rpc.tool("notes_add", title="Write a note", destructive=False)
def write_note(text: Annotated[str, "What to note", {"minLength": 1, "maxLength": 1000}]) -> str:
    """Add a note for the user."""
    add_note(current_user, text)
    return "Noted"


# The pages.

login = LoginManager()


@login.user_loader
def load_user(id: str) -> User | None:
    return USERS.get(id)


app = Flask(__name__)
app.secret_key = secrets.token_hex()  # a real site has one that stays
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"
login.init_app(app)
app.register_blueprint(rpc)


@app.post("/login")
def sign_in() -> str:
    user = USERS.get(request.form["username"])
    if user is None or not check_password_hash(user.password_hash, request.form["password"]):
        abort(403)
    login_user(user)
    return "Signed in\n"


@app.post("/notes")
@login_required
def post_note() -> str:
    add_note(current_user, request.form["text"])
    return "Noted\n"


@app.get("/notes")
@login_required
def show_notes() -> list[str]:
    return notes_of(current_user)


@app.post("/token")
@login_required
def make_token() -> str:
    """Show the user a token for their client, this once; a new one ends the one before."""
    token = secrets.token_urlsafe()
    current_user.token_digest = digest_of(token)
    return token
