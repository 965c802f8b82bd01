"""One assertion about all tools of an app: what ``flask mcp doctor`` says, as a test."""

from __future__ import annotations

from collections.abc import Iterable

from flask import Flask

from ..doctor import Finding, examine
from ..settings import PREFIX


def assert_tools_valid(app: Flask, ignore: Iterable[str] = (), *, tools_only: bool = True) -> None:
    """Assert that clients will be able to use the tools of an app, and only those who should.

    It looks for what ``flask mcp doctor`` looks for, warnings included.

    :param ignore: What is meant to be so: slugs such as ``"name-dots"``, or ``"name-dots:articles.get"`` for one tool.
        What ``JSONRPC_MCP_DOCTOR_IGNORE`` says is ignored too.
    :param tools_only: With ``False``, look at the settings, the sign-in and the server too. Those of tests are seldom
        those of a deployment, so the command is the better place for that.
    :raises AssertionError: with everything that was found, why it matters and what to do.
    :raises ValueError: for a slug that does not exist.
    """
    __tracebackhide__ = True
    ignored = [*app.config.get(PREFIX + "DOCTOR_IGNORE", ()), *ignore]
    findings = examine(app, ignore=ignored, tools_only=tools_only)
    if findings:
        raise AssertionError(_explained(app, findings))


def _explained(app: Flask, findings: list[Finding]) -> str:
    """List what was found, the same thing about several tools only once."""
    tools: dict[tuple[str, str, str, str], list[str]] = {}
    for found in findings:
        about = tools.setdefault((found.severity, found.slug, found.why, found.fix), [])
        about.extend([] if found.tool is None else [found.tool])
    lines = [f"some of what {app.name!r} offers will not work as it should"]
    for (severity, slug, why, fix), names in tools.items():
        lines += ["", f"{severity} {slug}{': ' if names else ''}{', '.join(names)}", f"  {why}", f"  to do: {fix}"]
    slugs = list(dict.fromkeys(found.slug for found in findings))
    return "\n".join([*lines, "", f"what is meant to be so can be ignored: assert_tools_valid(app, ignore={slugs})"])
