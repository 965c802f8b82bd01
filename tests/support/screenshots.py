"""Takes the pictures of the explorer and of the sign-in in docs/pictures: ``make screenshots``.

Look at them before you keep them.
"""

from __future__ import annotations

import re
import tempfile
from base64 import b64decode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.support.browser import PHONE, Explorer, chromium
from tests.support.servers import ROOT, Server, gunicorn

PICTURES = ROOT / "docs/pictures"
SIZE = (1360, 850)
LOGIN, CONSENT, APPS, CONSENT_ON_PHONE = (760, 700), (760, 530), (760, 450), (390, 500)

VERIFIER = "of-a-client-that-is-only-in-a-picture-0123456789"
CALLBACK = "https://claude.ai/api/mcp/auth_callback"


def take(page: Explorer, name: str) -> None:
    # Without the focus there is no blinking cursor in one picture and not in the next.
    page.driver.execute_script("document.activeElement.blur()")
    picture = b64decode(page.command("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])
    (PICTURES / f"{name}.png").write_bytes(picture)
    print(f"{name}.png", len(picture) // 1000, "kB")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, chromium(Path(temporary)) as driver:
        env = {
            "DATABASE_URL": f"sqlite:///{temporary}/site.sqlite3",
            "SECRET_KEY": "key" * 16,
            "SITE_ENV": "development",
        }
        with gunicorn("wsgi:app", Path(temporary), "--config", "sample_app/gunicorn_conf.py", env=env) as server:
            page = Explorer(driver, server.url)
            take_explorer(page)
            take_sign_in(page, server)


def take_explorer(page: Explorer) -> None:
    page.open(size=SIZE)
    page.sign_in("editor", "editor")
    page.wait_for(".counts")
    take(page, "explorer-start")
    page.press_link("Create an article")
    page.fill("title", "The first frost")
    page.fill("body", "Cover the dahlias tonight.")
    page.press("Run")
    page.wait_for(".outcome .status.good")
    take(page, "explorer-light")
    page.open("#/tools/articles.list", size=SIZE, scheme="dark")
    page.sign_in("editor", "editor")
    page.press("Run")
    page.wait_for(".outcome table")
    take(page, "explorer-dark")
    page.open("#/tools/articles.search", size=PHONE, touch=True)
    page.sign_in("editor", "editor")
    page.fill("query", "compost")
    take(page, "explorer-phone")


def take_sign_in(page: Explorer, server: Server) -> None:
    """A client sends a person here, who signs in, consents, and sees later what is connected."""
    asked = authorization_url(server)
    page.show(asked, size=LOGIN)
    page.wait_for("h1", "Sign in")
    take(page, "sign-in-login")
    page.fill("User name", "editor")
    page.fill("Password", "editor")
    page.press("Sign in")
    page.wait_for("h1", "Connect Claude")
    page.show(asked, size=CONSENT)
    take(page, "sign-in-consent")
    page.show(asked, size=CONSENT, scheme="dark")
    take(page, "sign-in-consent-dark")
    page.show(asked, size=CONSENT_ON_PHONE, touch=True)
    take(page, "sign-in-consent-phone")
    connect(server, asked)
    page.show("/oauth/apps", size=APPS)
    take(page, "sign-in-apps")


def authorization_url(server: Server) -> str:
    """Register a client, and return the path that it sends people to."""
    registration = {"client_name": "Claude", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    client = server.request("/oauth/register", data=registration).json()
    challenge = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": client["client_id"],
        "redirect_uri": CALLBACK,
        "scope": "articles:read articles:write",
        "state": "state",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"/oauth/authorize?{urlencode(query)}"


def connect(server: Server, asked: str) -> None:
    """Sign in, consent, and let the client get its token."""
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for path, form in (
            (f"/login?{urlencode({'next': asked})}", {"login": "editor", "password": "editor"}),
            (asked, {"decision": "allow"}),
        ):
            hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', http.get(path).text)
            answer = http.post(path, data={**form, **dict(hidden)})
        [code] = parse_qs(urlsplit(answer.headers["Location"]).query)["code"]
        [client_id] = parse_qs(urlsplit(asked).query)["client_id"]
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
        form |= {"client_id": client_id, "redirect_uri": CALLBACK}
        http.post("/oauth/token", data=form).raise_for_status()


if __name__ == "__main__":
    main()
