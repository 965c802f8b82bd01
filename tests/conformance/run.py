"""Runs the official MCP conformance suite against the fixture app under gunicorn, once per era: ``make conformance``.

Both eras are served by one running server with three workers of eight threads. A failure that is not in the era's
``expected-*.yml`` fails the run; so does one that is there and does not happen, and so does a warning.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ..servers import Server, gunicorn, need

HERE = Path(__file__).parent
VERSIONS = ("2025-11-25", "2026-07-28")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = ("--workers", "3", "--threads", "8")
        with gunicorn("tests.conformance.fixture:app", Path(folder), *options) as server:
            server.request("/.well-known/mcp.json")
            failed = [version for version in VERSIONS if not passes(server, version, Path(folder))]
    if failed:
        sys.exit(f"conformance: not passed at {', '.join(failed)}")


def passes(server: Server, version: str, folder: Path) -> bool:
    """Run the suite at one version, and print what became of it."""
    command = [need("npx"), "--no-install", "conformance", "server", "--url", f"{server.url}/mcp", "--suite", "all"]
    baseline = HERE / f"expected-{version}.yml"
    options = ["--spec-version", version, "--expected-failures", str(baseline), "--output-dir", str(folder / version)]
    result = subprocess.run([*command, *options], cwd=HERE, capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        print(result.stdout.partition("=== SUMMARY ===")[2] or result.stdout + result.stderr, flush=True)
        return False
    passing, failing = (len(re.findall(f"^{sign} ", result.stdout, re.MULTILINE)) for sign in "✓✗")
    known = len(re.findall(r"^ +- ", baseline.read_text(), re.MULTILINE))
    print(f"conformance at {version}: {passing} of {passing + failing} scenarios, {known} known gaps", flush=True)
    return True


if __name__ == "__main__":
    main()
