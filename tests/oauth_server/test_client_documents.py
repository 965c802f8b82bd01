"""96: clients whose id is the URL of a document, and where such a URL may not lead.

The resolver and all outgoing connections are our own; what should not be fetched must not be connected to, either.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp.oauth import authorization_server
from flask_jsonrpc_mcp.oauth_server import app_clients
from tests.oauth_server.conftest import CALLBACK, Clock, Site, answer_in, assert_page
from tests.support.internet import ADDRESS, HOST, Documents, Internet, serving_documents


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Documents]:
    with serving_documents(tmp_path) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        authorization_server._client.cache_clear()  # it has read the certificates of this machine
        yield running
    authorization_server._client.cache_clear()


@pytest.fixture
def internet(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> Internet:
    internet = Internet(documents.port)
    internet.install(monkeypatch.setattr)
    return internet


@pytest.fixture
def site(tmp_path: Path, internet: Internet) -> Site:
    site = Site(tmp_path)
    site.log_in("ada")
    return site


def test_a_document_is_a_client_whose_address_is_proven(site: Site, documents: Documents, internet: Internet) -> None:
    client_id = documents.publish("/oauth/client.json")
    page = site.authorize(client_id=client_id)
    assert "The app comes from <strong>client.example</strong>. site has checked this address." in page.text
    assert "cannot check this name" not in page.text
    assert (documents.requested, internet.connected) == ([f"{HOST}/oauth/client.json"], [ADDRESS])
    tokens = site.sign_in(client_id=client_id)
    assert site.runs(site.refresh(tokens["refresh_token"], client_id=client_id).get_json())
    assert "From client.example, connected on" in site.browser.get("/oauth/apps").text
    assert len(documents.requested) == 1


def test_nothing_is_fetched_for_visitors_and_at_the_token_endpoint(
    site: Site, documents: Documents, internet: Internet
) -> None:
    client_id = documents.publish("/client")
    site.log_in(None)
    assert site.authorize(client_id=client_id).headers["Location"].startswith("/login?next=")
    site.redeem("x", client_id=client_id)
    site.refresh("x", client_id=client_id)
    assert (documents.requested, internet.connected) == ([], [])


@pytest.mark.parametrize(
    "client_id",
    [
        f"http://{HOST}/client",
        f"https://{HOST}",
        f"https://{HOST}/",
        f"https://{HOST}/client#part",
        f"https://user@{HOST}/client",
        f"https://user:password@{HOST}/client",
        f"https://{HOST}/a/../client",
        f"https://{HOST}/./client",
        f"https://{HOST}/%2e%2e/client",
        f"https://{HOST}/a/.%2E/client",
        f"https://{HOST}:port/client",
        f"https://{HOST}\\@evil.example/client",
        f"https://{HOST}/clíent",
        f"https://{HOST}/{'x' * 1000}",
        "https:///client",
        "https://[::1/client",
        "ftp://client.example/client",
        "file:///etc/passwd",
    ],
)
def test_96_a_url_of_another_form_is_not_fetched(site: Site, internet: Internet, client_id: str) -> None:
    assert_page(site.authorize(client_id=client_id))
    assert internet.connected == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.0.0.8",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::",
        "2001:0:0:0:0:0:0:1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "2001:db8::1",
    ],
)
def test_96_no_address_inside_is_connected_to(site: Site, internet: Internet, address: str) -> None:
    """Neither as a name, nor among public ones, nor as the host of the URL itself."""
    for answers in ([address], [ADDRESS, address], [address, ADDRESS]):
        internet.answers["inside.example"] = answers
        assert_page(site.authorize(client_id=f"https://inside.example/client-{len(answers)}-{answers[0]}"))
    host = f"[{address}]" if ":" in address else address
    assert_page(site.authorize(client_id=f"https://{host}/client"))
    assert internet.connected == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "localhost."])
def test_96_other_ways_to_write_this_machine_are_not_connected_to(site: Site, internet: Internet, host: str) -> None:
    assert_page(site.authorize(client_id=f"https://{host}/client"))
    assert internet.connected == []


def test_96_a_name_that_is_resolved_again_does_not_lead_elsewhere(
    site: Site, documents: Documents, internet: Internet
) -> None:
    """DNS rebinding: the second answer is this machine, but the connection goes to the first."""
    internet.answers[HOST] = [[ADDRESS], ["127.0.0.1"]]
    assert site.authorize(client_id=documents.publish("/client")).status_code == 200
    assert internet.connected == [ADDRESS]


def test_96_a_name_without_an_address_is_an_unknown_client(site: Site, internet: Internet) -> None:
    internet.answers["nowhere.example"] = []
    assert_page(site.authorize(client_id="https://nowhere.example/client"))


def test_96_a_redirect_is_not_followed(site: Site, documents: Documents, internet: Internet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.01)
        documents.status = 302
        documents.headers["Location"] = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert_page(site.authorize(client_id=documents.publish("/client")))
        with pytest.raises(TimeoutError):
            listener.accept()
    assert internet.connected == [ADDRESS]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"client_id": 1, "client_id": 2}',
        b" " * 6000,
        pytest.param(lambda out: [out.write(b"x" * 10_000) for _ in range(100_000)], id="a gigabyte"),
        {"redirect_uris": [CALLBACK]},
        {"client_id": f"https://{HOST}/other", "redirect_uris": [CALLBACK]},
        {"client_id": f"https://{HOST}/client/", "redirect_uris": [CALLBACK]},
        {"client_id": f"https://{HOST}/client"},
        {"client_id": f"https://{HOST}/client", "redirect_uris": ["javascript:x"]},
        {"client_id": f"https://{HOST}/client", "redirect_uris": [CALLBACK], "grant_types": ["implicit"]},
        {"client_id": f"https://{HOST}/client", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "x"},
    ],
)
def test_96_a_document_that_cannot_be_used_is_an_unknown_client(
    site: Site, documents: Documents, document: Any, caplog: pytest.LogCaptureFixture
) -> None:
    documents.documents["/client"] = document
    assert_page(site.authorize(client_id=f"https://{HOST}/client"))
    assert documents.requested == [f"{HOST}/client"]
    assert "the document of an OAuth client cannot be used" in caplog.text


def test_96_a_slow_document_is_given_up(site: Site, documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization_server, "TIMEOUT", 0.2)
    authorization_server._client.cache_clear()

    def drip(out: Any) -> None:
        for _ in range(1000):
            out.write(b" ")
            out.flush()
            time.sleep(0.01)

    documents.documents["/client"] = drip
    assert_page(site.authorize(client_id=f"https://{HOST}/client"))


def test_96_a_certificate_of_another_host_is_not_accepted(site: Site, documents: Documents, internet: Internet) -> None:
    internet.answers["other.example"] = [ADDRESS]
    documents.publish("/client", client_id="https://other.example/client")
    assert_page(site.authorize(client_id="https://other.example/client"))
    assert (documents.requested, internet.connected) == ([], [ADDRESS])


def test_the_redirects_of_a_document_are_the_only_ones(site: Site, documents: Documents) -> None:
    client_id = documents.publish("/client", redirect_uris=["https://claude.ai/callback"])
    assert_page(site.authorize(client_id=client_id))
    assert site.authorize(client_id=client_id, redirect_uri="https://claude.ai/callback").status_code == 200


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [("", 300), ("max-age=10", 300), ("public, max-age=7200", 7200), ("max-age=999999999", 86400), ("max-age=x", 300)],
)
def test_a_document_is_kept_as_long_as_it_says_within_bounds(
    site: Site, documents: Documents, clock: Clock, cache_control: str, seconds: int
) -> None:
    documents.headers["Cache-Control"] = cache_control
    client_id = documents.publish("/client")
    site.authorize(client_id=client_id)
    clock.advance(seconds - 1)
    site.authorize(client_id=client_id)
    assert len(documents.requested) == 1
    clock.advance(2)
    site.authorize(client_id=client_id)
    assert len(documents.requested) == 2


def test_a_document_that_is_gone_is_used_for_a_week(site: Site, documents: Documents, clock: Clock) -> None:
    """It is asked for at most twice a minute then, however often people sign in."""
    client_id = documents.publish("/client")
    assert site.authorize(client_id=client_id).status_code == 200
    del documents.documents["/client"]
    clock.advance(301)
    for _ in range(3):
        assert "code" in answer_in(site.decide(site.authorize(client_id=client_id)))
    assert len(documents.requested) == 2
    clock.advance(31)
    assert site.authorize(client_id=client_id).status_code == 200
    assert len(documents.requested) == 3
    clock.advance(7 * 24 * 3600)
    assert_page(site.authorize(client_id=client_id))


def test_people_who_come_at_once_wait_for_one_fetch(site: Site, documents: Documents) -> None:
    client_id, go_on = documents.publish("/client"), threading.Event()
    document = json.dumps(documents.documents["/client"]).encode()
    documents.documents["/client"] = lambda out: go_on.wait(60) and out.write(document)
    query = "/oauth/authorize?" + site.query(client_id=client_id)
    browsers = [site.app.test_client() for _ in range(4)]
    for browser in browsers:
        with browser.session_transaction() as changed:
            changed["user"] = "ada"
    with ThreadPoolExecutor(4) as pool:
        pages = [pool.submit(browser.get, query) for browser in browsers]
        while not documents.requested:
            assert not any(page.done() for page in pages)
        go_on.set()
        assert [page.result().status_code for page in pages] == [200] * 4
    assert len(documents.requested) == 1


def test_the_documents_in_memory_are_limited(site: Site, documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_clients, "MAX_DOCUMENTS", 3)
    for number in range(4):
        site.authorize(client_id=documents.publish(f"/client-{number}"))
    site.authorize(client_id=documents.publish("/client-3"))
    assert len(documents.requested) == 4
    site.authorize(client_id=documents.publish("/client-0"))
    assert len(documents.requested) == 5
