"""The person at the browser, who signs in and consents, on the pages of tests/authorization_server or of our own."""

import os
import re
from html import unescape
from urllib.parse import urljoin


def sign_in(http, url: str, callback: str) -> str:
    """Open an authorization URL, and return the one that the browser comes back with.

    :param http: A client of httpx, which keeps cookies and follows no redirects.
    """
    response = http.get(url)
    for _ in range(20):
        if response.has_redirect_location:
            url = urljoin(url, response.headers["Location"])
            if url.startswith(callback):
                return url
            response = http.get(url)
            continue
        response.raise_for_status()
        page = response.text
        form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
        form |= dict(re.findall(r'<button class="main" name="(\w+)" value="(\w+)"', page))
        if 'name="login"' in page:
            form |= {"login": os.environ["LOGIN"], "password": os.environ.get("PASSWORD", os.environ["LOGIN"])}
        url = urljoin(url, unescape(re.search(r'<form[^>]* action="([^"]+)"', page)[1]))
        response = http.post(url, data=form)
    raise RuntimeError(f"no way back to the client from {url}")


def disconnect(http, url: str) -> None:
    """Disconnect all apps, on the page for it of the site that a URL belongs to."""
    apps = urljoin(url, "/oauth/apps")
    for form in re.findall(r"<form.*?</form>", http.get(apps).text, re.DOTALL):
        http.post(apps, data=dict(re.findall(r'name="(\w+)" value="([^"]+)"', form))).raise_for_status()
