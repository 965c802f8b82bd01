r"""Books in a database: create, read, update and delete, with SQLAlchemy and marshmallow.

    $ flask --app sqlalchemy_crud run
    $ curl http://127.0.0.1:5000/mcp/tools/invoke -H 'Content-Type: application/json' \
        -d '{"name": "books_create", "arguments": {"isbn": "9780141439518", "title": "Emma", "year": 1815}}'
    {"result": {"id": 1, "isbn": "9780141439518", "title": "Emma", "year": 1815}}
    $ curl http://127.0.0.1:5000/mcp/tools/invoke -H 'Content-Type: application/json' \
        -d '{"name": "books_create", "arguments": {"isbn": "9780141439518", "title": "Emma again"}}'
    {"error": {"code": "execution_error",
               "message": "Tool execution failed: There is a book with the ISBN 9780141439518 already"}}
    $ curl http://127.0.0.1:5000/mcp/tools/invoke -H 'Content-Type: application/json' \
        -d '{"name": "books_delete", "arguments": {"id": 7}}'
    {"error": {"code": "execution_error", "message": "Tool execution failed: Book 7 does not exist"}}

Anyone may call everything here; pass ``McpBlueprint(auth=...)`` and ``access=[...]`` as ``login_site`` does.
"""

from __future__ import annotations

import os
from typing import Any

from flask import Flask, current_app, g
from marshmallow import Schema, fields, validate
from sqlalchemy import create_engine, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import StaticPool

from flask_jsonrpc_mcp import McpBlueprint, RpcError


class Base(DeclarativeBase):
    """The base class of all models."""


class Book(Base):
    __tablename__ = "books"

    id: Mapped[int] = mapped_column(primary_key=True)
    isbn: Mapped[str] = mapped_column(unique=True)
    title: Mapped[str]
    year: Mapped[int | None]


# The schemas of arguments and results. Clients see them as JSON Schemas.


class NewBook(Schema):
    isbn = fields.String(required=True, validate=validate.Regexp(r"^[0-9]{13}$"), metadata={"description": "13 digits"})
    title = fields.String(required=True, validate=validate.Length(min=1, max=200))
    year = fields.Integer(strict=True, load_default=None, validate=validate.Range(-3000, 3000))


class ChangedBook(Schema):
    id = fields.Integer(required=True, strict=True)
    title = fields.String(validate=validate.Length(min=1, max=200))
    year = fields.Integer(strict=True, allow_none=True, validate=validate.Range(-3000, 3000))


class ShownBook(Schema):
    """A book, dumped from the model."""

    id = fields.Integer(required=True)
    isbn = fields.String(required=True)
    title = fields.String(required=True)
    year = fields.Integer(required=True, allow_none=True)


rpc = McpBlueprint()


@rpc.tool("books_list", title="List books", read_only=True, output=ShownBook(many=True))
def list_books() -> list[Book]:
    """List all books by title."""
    return list(session().scalars(select(Book).order_by(Book.title, Book.id)))


@rpc.tool("books_create", title="Add a book", destructive=False, params=NewBook, output=ShownBook)
def create_book(**values: Any) -> Book:
    """Add a book and return it."""
    book = Book(**values)
    session().add(book)
    try:
        session().commit()
    except IntegrityError as error:
        session().rollback()
        raise RpcError(f"There is a book with the ISBN {values['isbn']} already") from error
    return book


@rpc.tool(
    "books_update",
    title="Change a book",
    destructive=True,
    idempotent=True,
    params=ChangedBook,
    output=ShownBook,
)
def update_book(id: int, **changes: Any) -> Book:
    """Change a book and return it. What is left out stays as it is."""
    book = find_book(id)
    for name, value in changes.items():
        setattr(book, name, value)
    session().commit()
    return book


@rpc.tool("books_delete", title="Remove a book", destructive=True)
def delete_book(id: int) -> bool:
    """Remove a book for good."""
    session().delete(find_book(id))
    session().commit()
    return True


def find_book(id: int) -> Book:
    book = session().get(Book, id)
    if book is None:
        raise RpcError(f"Book {id} does not exist")
    return book


def session() -> Session:
    """The session of this request; what is not committed is rolled back when the request ends."""
    if "session" not in g:
        g.session = Session(current_app.extensions["engine"])
    found: Session = g.session
    return found


def create_app(database_url: str | None = None) -> Flask:
    app = Flask(__name__)
    url = database_url or os.environ.get("DATABASE_URL") or "sqlite://"
    # A database in memory has one connection for all threads, or each would see an empty one of its own.
    in_memory = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}} if url == "sqlite://" else {}
    engine = app.extensions["engine"] = create_engine(url, **in_memory)
    Base.metadata.create_all(engine)

    @app.teardown_appcontext
    def close_session(error: BaseException | None) -> None:
        if "session" in g:
            g.session.close()

    app.register_blueprint(rpc)
    return app
