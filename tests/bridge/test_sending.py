"""What the bridge sends to a site, how often, and to whom."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flask_jsonrpc_mcp.bridge.site import Site
from tests.support.servers import free_port, need
from tests.support.stdio_client import modern

from .conftest import Bridged, Connect, call, listed, success, text_of
from .drupal_site import DrupalSite, Raw, Trickle


def test_a_write_is_never_sent_twice(bridge: Bridged, drupal: DrupalSite) -> None:
    drupal.raw.extend([Raw(None), Raw(503), Raw(502), Raw(200, b"{", {"Content-Length": "100"})])
    texts = [text_of(call(bridge, "node.create", {"title": str(number)})) for number in range(4)]
    assert [seen.asked["params"]["title"] for seen in drupal.calls] == ["0", "1", "2", "3"]
    assert "may or may not have been carried out" in texts[0]
    assert "may or may not have been carried out" in texts[3]


def test_a_read_is_sent_again_when_the_connection_breaks_or_the_site_is_away(
    bridge: Bridged, drupal: DrupalSite
) -> None:
    drupal.raw.extend([Raw(None), Raw(503)])
    assert call(bridge, "node.get", {"id": "7"}) == success({"id": "7", "title": "Hello"})
    assert len(drupal.calls) == 3


def test_a_site_that_closes_connections_is_no_trouble_for_writes(bridge: Bridged, drupal: DrupalSite) -> None:
    """A connection that was kept may be closed when it is used again."""
    drupal.hangs_up = True
    for number in range(20):
        assert call(bridge, "node.get", {"id": "7"})["isError"] is False
        assert call(bridge, "node.create", {"title": str(number)})["isError"] is False
    writes = [seen.asked["params"]["title"] for seen in drupal.calls if seen.verb == "POST"]
    assert writes == [str(number) for number in range(20)]


def test_a_site_that_is_down_is_an_error_and_fine_when_it_is_back(connect: Connect) -> None:
    port = free_port()
    bridge = connect(url=f"http://127.0.0.1:{port}")
    assert "cannot be reached" in text_of(call(bridge, "node.create", {"title": "a"}))
    assert "cannot be reached" in bridge.ask(modern("tools/list"))["error"]["message"]
    with DrupalSite(socket.create_server(("127.0.0.1", port))):
        assert call(bridge, "node.create", {"title": "a"})["isError"] is False


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({}, None),
        ({"user": "jürgen", "password": "pa:ss"}, "Basic " + base64.b64encode("jürgen:pa:ss".encode()).decode()),
        ({"token": "secret-token"}, "Bearer secret-token"),
    ],
)
def test_the_bridge_signs_in(connect: Connect, drupal: DrupalSite, settings: Any, header: str | None) -> None:
    call(connect(**settings), "node.get", {"id": "7"})
    assert {seen.headers.get("Authorization") for seen in drupal.seen} == {header}


def test_a_redirect_to_another_host_gets_no_credentials(connect: Connect, drupal: DrupalSite) -> None:
    with DrupalSite() as other:
        bridge = connect(token="secret-token")
        listed(bridge)
        drupal.listed = Raw(302, b"", {"Location": f"{other.url}/mcp/tools/list"})
        for status in (301, 302, 307, 308):
            drupal.raw.extend([Raw(status, b"", {"Location": f"{other.url}/jsonrpc"})] * 2)
            assert "redirects" in text_of(call(bridge, "node.get", {"id": "7"}))
            assert "redirects" in text_of(call(bridge, "node.create", {"title": "a"}))
        assert "redirects" in bridge_error(connect(token="secret-token"))
        assert other.seen == []


def bridge_error(bridge: Bridged) -> str:
    message: str = bridge.ask(modern("tools/list"))["error"]["message"]
    return message


@pytest.mark.parametrize(
    ("auth", "settings", "missing"),
    [
        ({"scopes": ["content:write"]}, {}, "needs a sign-in with the scopes content:write: set MCP_BRIDGE_TOKEN"),
        ({"level": "required"}, {}, "needs a sign-in: set MCP_BRIDGE_TOKEN"),
        (
            {"scopes": ["content:write", "content:read"], "level": "required"},
            {"token": "t", "scopes": frozenset({"content:read"})},
            "lacks content:write (MCP_BRIDGE_SCOPES has content:read)",
        ),
        ({"scopes": ["content:write"]}, {"token": "t", "scopes": frozenset()}, "(MCP_BRIDGE_SCOPES has none)"),
        ({"scopes": ["content:write"]}, {"token": "t"}, None),
        ({"scopes": ["content:write"]}, {"token": "t", "scopes": frozenset({"content:write"})}, None),
        ({"scopes": ["content:write"], "level": "optional"}, {}, None),
        ({"level": "none"}, {}, None),
        ({"scopes": "all"}, {}, None),
    ],
)
def test_scopes_are_checked_before_a_call(
    connect: Connect, drupal: DrupalSite, auth: Any, settings: Any, missing: str | None
) -> None:
    drupal.tool("guarded", lambda params: "done", annotations={"auth": auth})
    result = call(connect(**settings), "guarded")
    if missing is None:
        assert result == success("done")
    else:
        assert missing in text_of(result)
        assert drupal.calls == []


def test_the_log_has_neither_secrets_nor_arguments(
    connect: Connect, drupal: DrupalSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "flask_jsonrpc_mcp")
    bridge = connect(user="jane", password="pass-word")
    drupal.raw.extend([Raw(None), Raw(None), Raw(None), Raw(405)])
    for _ in range(3):
        call(bridge, "node.get", {"id": "argument"})
    call(bridge, "node.create", {"title": "argument"})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("flask_jsonrpc_mcp")]
    assert any(message.startswith("'node.create' ok") for message in ours)
    assert not any(secret in message for message in ours for secret in ("pass-word", "argument", "Basic"))
    assert "pass-word" not in repr(Site(drupal.url, user="jane", password="pass-word", token=None))


def test_a_site_that_does_not_answer_in_time_is_an_error_of_that_call(connect: Connect, drupal: DrupalSite) -> None:
    end = threading.Event()
    drupal.tool("slow", lambda params: end.wait(60))
    bridge = connect(timeout=3)
    text = text_of(call(bridge, "slow"))
    end.set()
    assert text.startswith("The site has not answered within 3 seconds; the call was not sent again")


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: more\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["interim responses", "headers", "body"],
)
def test_one_deadline_covers_the_whole_exchange(
    connect: Connect, drupal: DrupalSite, start: bytes, part: bytes
) -> None:
    """Each read succeeds in time, and there is always one more."""
    bridge = connect(timeout=2)
    listed(bridge)
    drupal.raw.append(Trickle(start=start, part=part))
    assert text_of(call(bridge, "node.create", {"title": "a"})).startswith("The site has not answered within 2 seconds")
    assert drupal.client_left.wait(30)


def test_a_read_that_is_out_of_time_is_not_sent_again(connect: Connect, drupal: DrupalSite) -> None:
    bridge = connect(timeout=2)
    listed(bridge)
    drupal.raw.append(Raw(503))
    drupal.raw.extend([Trickle(start=b"HTTP/1.1 200 OK\r\n", part=b"X-Header: more\r\n")] * 2)
    assert text_of(call(bridge, "node.get", {"id": "7"})) == "The site has not answered within 2 seconds"
    assert len(drupal.calls) == 2


def test_a_name_that_is_looked_up_without_end_is_given_up(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    end, waited_for = threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> Any:
        if not end.wait(30):
            waited_for.set()
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert call(connect(timeout=0.2), "node.create")["isError"]
    assert not waited_for.is_set()
    end.set()


def test_a_proxy_of_the_environment_never_sees_what_is_for_this_machine(
    connect: Connect, drupal: DrupalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DrupalSite() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        assert call(connect(token="secret-token"), "node.create", {"title": "a"})["isError"] is False
        assert proxy.seen == []


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[DrupalSite]:
    """A site with a certificate that nobody vouches for."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    command = [need("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with DrupalSite(certificate=context) as site:
        yield site


def test_a_site_that_cannot_prove_who_it_is_gets_nothing(connect: Connect, encrypted: DrupalSite) -> None:
    bridge = connect(url=encrypted.url, token="secret-token")
    assert "CERTIFICATE_VERIFY_FAILED" in text_of(call(bridge, "node.create", {"title": "a"}))
    assert encrypted.seen == []


def test_a_certificate_may_be_vouched_for_in_the_environment(
    connect: Connect, encrypted: DrupalSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    assert call(connect(url=encrypted.url), "node.create", {"title": "a"})["isError"] is False


def test_a_connection_whose_encryption_breaks_is_an_error_of_that_call(
    connect: Connect, encrypted: DrupalSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    bridge = connect(url=encrypted.url)
    listed(bridge)
    encrypted.raw.append(Trickle(part=b"not TLS", below_tls=True))
    assert text_of(call(bridge, "node.create")).startswith("The connection to the site broke")
