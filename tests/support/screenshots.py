"""Takes the pictures of the explorer in docs/pictures: ``make screenshots``. Look at them before you keep them."""

from __future__ import annotations

import tempfile
from base64 import b64decode
from pathlib import Path

from tests.support.browser import PHONE, Explorer, chromium
from tests.support.servers import ROOT, gunicorn

PICTURES = ROOT / "docs/pictures"
SIZE = (1360, 850)


def take(page: Explorer, name: str) -> None:
    # Without the focus there is no blinking cursor in one picture and not in the next.
    page.driver.execute_script("document.activeElement.blur()")
    picture = b64decode(page.command("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])
    (PICTURES / f"{name}.png").write_bytes(picture)
    print(f"{name}.png", len(picture) // 1000, "kB")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, chromium(Path(temporary)) as driver:
        env = {"DATABASE_URL": f"sqlite:///{temporary}/site.sqlite3", "SECRET_KEY": "key" * 16, "SITE_ENV": "development"}
        with gunicorn("wsgi:app", Path(temporary), "--config", "sample_app/gunicorn_conf.py", env=env) as server:
            page = Explorer(driver, server.url)
            page.open(size=SIZE)
            take(page, "explorer-start")
            page.sign_in("editor", "editor")
            page.press_link("Create an article")
            page.fill("title", "The first frost")
            page.fill("body", "Cover the dahlias tonight.")
            page.press("Run")
            page.wait_for(".outcome .status.good")
            take(page, "explorer-light")
            page.open("#/tools/articles.list", size=SIZE, scheme="dark")
            page.press("Run")
            page.wait_for(".outcome table")
            take(page, "explorer-dark")
            page.open("#/tools/articles.search", size=PHONE, touch=True)
            page.fill("query", "compost")
            take(page, "explorer-phone")


if __name__ == "__main__":
    main()
