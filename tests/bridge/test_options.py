"""What may be said about a site."""

from __future__ import annotations

from typing import Any

import pytest

from flask_jsonrpc_mcp.bridge.site import Site


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "site.example"}, "must begin with https://"),
        ({"url": "ftp://site.example"}, "must begin with https://"),
        ({"url": "https://"}, "must begin with https://"),
        ({"url": "https://[site"}, "is invalid"),
        ({"url": "https://site.example:port"}, "is invalid"),
        ({"url": "https://jane:secret@site.example"}, "without credentials"),
        ({"url": "https://site.example/?q=1"}, "without a query"),
        ({"url": "http://site.example"}, "must begin with https://; --allow-http"),
        ({"url": "http://localhost.example"}, "must begin with https://; --allow-http"),
        ({"endpoint": "https://other.example/jsonrpc"}, "must be a path"),
        ({"endpoint": "//other.example/jsonrpc"}, "must be a path"),
        ({"user": "jane", "password": "p", "token": "t"}, "not both"),
        ({"user": "jane"}, "together"),
        ({"password": "p"}, "together"),
        ({"token": "two\nlines"}, "printable ASCII"),
        ({"token": " "}, "printable ASCII"),
        ({"timeout": 0}, "more than 0"),
        ({"timeout": float("nan")}, "more than 0"),
        ({"lifetime": float("inf")}, "more than 0"),
        ({"lifetime": -1}, "more than 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        Site(**{"url": "https://site.example", **settings})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("https://site.example", "https://site.example"),
        ("https://site.example/", "https://site.example"),
        ("https://site.example/blog/", "https://site.example/blog"),
        ("https://site.example/mcp", "https://site.example"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_address_of_a_site_may_be_given_in_many_ways(given: str, meant: str) -> None:
    assert Site(given).url == meant


def test_plain_http_to_another_machine_must_be_asked_for() -> None:
    assert Site("http://site.example", allow_http=True).url == "http://site.example"
