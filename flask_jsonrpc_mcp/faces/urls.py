"""Where the paths of a blueprint are, seen from a request to one of them."""

from __future__ import annotations

from flask import url_for

from ..current import this_request


def own_url(endpoint: str, *, external: bool = False) -> str:
    """Tell the URL of another path of the same blueprint, with the variables of its prefix as they are here."""
    return url_for(f".{endpoint}", _external=external, **(this_request().view_args or {}))
