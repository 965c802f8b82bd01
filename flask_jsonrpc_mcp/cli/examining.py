"""``flask mcp doctor``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import click
from click.shell_completion import CompletionItem
from flask import Flask
from flask.cli import with_appcontext

from ..current import this_app
from ..doctor import Finding, examine
from ..doctor.examining import SLUGS
from ..doctor.findings import ERROR
from ..settings import PREFIX
from .callers import blueprints_of
from .terminal import echo_json, echo_paragraph, json_option, wants_json

SOMETHING_FOUND = 1
INDENT = 2


def _complete_slug(context: click.Context, parameter: click.Parameter, word: str) -> list[CompletionItem]:
    return [CompletionItem(slug) for slug in SLUGS if slug.startswith(word)]


@click.command("doctor")
@click.option(
    "--ignore",
    multiple=True,
    metavar="SLUG[:TOOL]",
    shell_complete=_complete_slug,
    help=f"Do not look for this, of one tool or of all; besides {PREFIX}DOCTOR_IGNORE.",
)
@click.option("--all", "show_all", is_flag=True, help=f"Also look for what {PREFIX}DOCTOR_IGNORE ignores.")
@json_option
@with_appcontext
def run_doctor(ignore: tuple[str, ...], show_all: bool, json_output: bool | None) -> None:
    """Find what will break before a client does.

    It looks at tools, settings and the server's configuration, and tries to sign in with a few passwords that everyone
    knows. The exit code is 1 when there are findings.
    """
    app = this_app()
    if not blueprints_of(app):
        raise click.UsageError("This app has no McpBlueprint; register one with app.register_blueprint(rpc)")
    ignored = [*([] if show_all else app.config[PREFIX + "DOCTOR_IGNORE"]), *ignore]
    try:
        findings = examine(app, ignore=ignored)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if wants_json(json_output):
        echo_json([finding.to_json() for finding in findings])
    else:
        _echo_findings(findings, several=len(blueprints_of(app)) > 1)
        _echo_summary(app, findings, ignored)
    if findings:
        raise click.exceptions.Exit(SOMETHING_FOUND)


def _echo_findings(findings: Iterable[Finding], *, several: bool) -> None:
    errors_first = sorted(findings, key=lambda finding: finding.severity != ERROR)
    for (severity, slug, why, fix), group in groupby(errors_first, lambda f: (f.severity, f.slug, f.why, f.fix)):
        color = "red" if severity == ERROR else "yellow"
        click.echo(f"{click.style(severity, fg=color, bold=True)}  {click.style(slug, bold=True)}")
        about = [_about(finding, several=several) for finding in group]
        if any(about):
            echo_paragraph(", ".join(about), indent=INDENT, fg="cyan")
        echo_paragraph(f"{why[0].upper()}{why[1:]}.", indent=INDENT)
        echo_paragraph(f"Fix: {fix}.", indent=INDENT, fg="green")
        click.echo()


def _about(finding: Finding, *, several: bool) -> str:
    names = [finding.blueprint if several else None, finding.tool]
    return ": ".join(name for name in names if name is not None)


def _echo_summary(app: Flask, findings: list[Finding], ignored: list[str]) -> None:
    tools = [method for core in blueprints_of(app).values() for method in core.registry if method.tool is not None]
    examined = f"{_count(len(tools), 'tool')} examined"
    if findings:
        errors = sum(finding.severity == ERROR for finding in findings)
        warnings = len(findings) - errors
        found = f"{_count(errors, 'error')} and {_count(warnings, 'warning')} found"
        click.secho(f"{examined}, {found}.", fg="red" if errors else "yellow", bold=True)
        click.echo(f"What is meant to be so can be ignored: --ignore SLUG, or {PREFIX}DOCTOR_IGNORE in app.config.")
    else:
        click.secho(f"{examined}, nothing found.", fg="green", bold=True)
    if ignored:
        click.secho(f"Ignored: {', '.join(ignored)}", dim=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
