"""The books behind every API of ``openapi_*_site.py``: ada may do everything, ben may not delete."""

from typing import Any

from flask import Flask
from flask_httpauth import HTTPBasicAuth

ROLES = {"ada": ["Admin"], "ben": []}
PNG = b"\x89PNG\r\n\x1a\n"

auth = HTTPBasicAuth()
auth.verify_password(lambda username, password: username if username in ROLES and password == "a long secret" else None)
auth.get_user_roles(ROLES.get)


class Library:
    """Three books, and the covers of some."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        titles = ["Emma", "Ulysses", "Walden"]
        self.books: dict[int, dict[str, Any]] = {
            key: {"id": key, "title": title, "pages": 100 * key} for key, title in enumerate(titles, 1)
        }
        self.covers = {1: PNG}

    def page(self, page: int, page_size: int) -> list[dict[str, Any]]:
        start = (page - 1) * page_size
        return list(self.books.values())[start : start + page_size]

    def add(self, title: str, pages: int) -> dict[str, Any]:
        book: dict[str, Any] = {"id": max(self.books, default=0) + 1, "title": title, "pages": pages}
        self.books[book["id"]] = book
        return book

    def change(self, id: int, title: str, pages: int) -> dict[str, Any]:
        self.books[id] = {"id": id, "title": title, "pages": pages}
        return self.books[id]


library = Library()


def problems_of(title: str, pages: int) -> dict[str, list[str]]:
    """Check what the document of an API does not say."""
    problems = {"title": ["Do not shout"]} if title.isupper() else {}
    return {**problems, "pages": ["Bad luck"]} if pages == 13 else problems


def etag_of(book: dict[str, Any]) -> str:
    return f"{book['title']}-{book['pages']}"


def add_reset(app: Flask) -> None:
    """Let a test begin with the same books."""

    @app.post("/reset")
    def reset() -> dict[str, Any]:
        library.reset()
        return {}
