"""Access tokens at a site with three processes, each of which has its own keys, while these change and go missing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import basic
from tests.support.issuer import JWKS, METADATA, Issuer, issuing
from tests.support.servers import Server, gunicorn
from tests.support.tokens import Signer, bearer, make_claims, private_key

WORKERS = 3


@contextmanager
def site(issuer: Issuer, folder: Path) -> Iterator[Server]:
    """A site for which it is half a minute later once there is the file "later" in this folder."""
    with gunicorn(
        "tests.apps.oauth_app:create_app()",
        folder,
        *("--workers", str(WORKERS), "--access-logfile", str(folder / "access.log"), "--access-logformat", "%(p)s"),
        env={"ISSUER": issuer.url, "PUBLIC_URL": "https://site.example", "LATER": str(folder / "later")},
    ) as server:
        yield server


def test_keys_are_rotated_while_calls_run(tmp_path: Path) -> None:
    """No call fails, with the old key or the new one. Each process fetches the keys twice at most."""
    with issuing() as issuer, site(issuer, tmp_path) as server:
        old, new = issuer.rsa, Signer("rsa-2", "RS256", private_key("RS256", 1))

        def call(number: int) -> int:
            signer = new if number >= 100 and number % 2 else old
            return server.invoke("read", {}, bearer(signer.token(make_claims(issuer.url, jti=str(number))))).status

        with ThreadPoolExecutor(8) as pool:
            before = list(pool.map(call, range(100)))
            running = [pool.submit(call, 0) for _ in range(20)]
            issuer.keys.append(new.jwk())
            (tmp_path / "later").touch()
            after = list(pool.map(call, range(100, 200)))
            meanwhile = [each.result() for each in running]
    assert before + meanwhile + after == [200] * 220
    workers = len(set((tmp_path / "access.log").read_text().split()))
    assert 1 < workers < issuer.count(JWKS) <= 2 * workers
    assert issuer.count(METADATA) == workers


def test_a_site_goes_on_without_its_authorization_server(tmp_path: Path) -> None:
    """With the keys that it knows. One that starts now knows none, and says that this is not the client's fault."""
    with issuing() as issuer:
        with site(issuer, tmp_path) as server:
            workers: set[str] = set()
            while len(workers) < WORKERS:
                assert server.invoke("read", {}, bearer(issuer.token())).status == 200
                workers = set((tmp_path / "access.log").read_text().split())
            issuer.stop()
            assert {server.invoke("read", {}, bearer(issuer.token())).status for _ in range(20)} == {200}
            assert server.invoke("read", {}, basic("reader")).status == 200
        with site(issuer, tmp_path) as server:
            unavailable = server.invoke("read", {}, bearer(issuer.token()))
            assert (unavailable.status, unavailable.headers["Retry-After"]) == (503, "5")
            assert "WWW-Authenticate" not in unavailable.headers
            assert server.invoke("read", {}, basic("reader")).status == 200
            assert server.invoke("read", {}).status == 401
