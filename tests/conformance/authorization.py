"""Runs the authorization scenarios of the official suite against an app that is its own authorization server.

Part of ``make conformance``: once with a client that has registered itself, once with one whose id is a document.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from tests.conformance.run import HERE, SUMMARY, outcomes_in
from tests.support.internet import serving_documents
from tests.support.servers import ROOT, Server, free_port, gunicorn, listen, need

sys.path.append(str(ROOT / "tests/clients"))  # its scripts run in environments of their own, where tests is no package
from person import sign_in  # type: ignore[import-not-found]

_AUTHORIZE = re.compile(r"^http://\S+/oauth/authorize\?\S+", re.MULTILINE)


def main() -> None:
    os.environ["LOGIN"] = "ada"
    with tempfile.TemporaryDirectory() as name, serving_documents(Path(name)) as documents:
        folder, listener, port = Path(name), listen(), free_port()
        callback = f"http://127.0.0.1:{port}/callback"
        env = {
            "PUBLIC_URL": f"http://127.0.0.1:{listener.getsockname()[1]}",
            "GRANTS": str(folder / "grants.sqlite"),
            "DOCUMENTS_PORT": str(documents.port),
            "SSL_CERT_FILE": str(folder / "ca.pem"),
        }
        app = "tests.apps.oauth_server_app:create_app()"
        with gunicorn(app, folder, "--workers", "3", env=env, listener=listener) as server:
            registered = server.request("/oauth/register", data={"redirect_uris": [callback]}).json()["client_id"]
            document = documents.publish("/client", redirect_uris=[callback])
            outcomes = [judge(server, client_id, port) for client_id in (registered, document)]
    if not all(outcomes):
        sys.exit("conformance: not passed as an authorization server")


def judge(server: Server, client_id: str, port: int) -> bool:
    """Run the scenarios with a client, and be the person whom they send to the authorization server."""
    kind = "a document" if client_id.startswith("https:") else "a registration"
    command = [need("npx"), "--no-install", "conformance", "authorization", "--url", server.url]
    options = ["--client-id", client_id, "--port", str(port), "--resource", f"{server.url}/mcp"]
    output = ""
    with subprocess.Popen([*command, *options], cwd=HERE, stdout=subprocess.PIPE, text=True) as suite:
        assert suite.stdout is not None
        for line in suite.stdout:
            output += line
            if _AUTHORIZE.match(line):
                with httpx.Client(timeout=30) as browser:
                    browser.get(sign_in(browser, line.strip(), f"http://127.0.0.1:{port}/callback"))
    scenarios = outcomes_in(output)
    print(
        f"conformance as an authorization server, with {kind}: {sum(scenarios.values())} of {len(scenarios)} scenarios"
    )
    passed = suite.returncode == 0 and bool(scenarios) and all(scenarios.values())
    if not passed:
        print(output.partition(SUMMARY)[2] or output, flush=True)
    return passed


if __name__ == "__main__":
    main()
