"""URI templates of RFC 6570, as far as a URI can be read back by them: ``{name}`` and ``{+path}``."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

MAX_URI = 2_000
"""The most characters of a URI that is compared with templates."""

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"(\+?)([A-Za-z_][A-Za-z0-9_]*)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")


class UriTemplate(NamedTuple):
    """A URI with variables in it, and how to find their values in a URI."""

    text: str
    variables: tuple[str, ...]
    pattern: re.Pattern[str]

    def match(self, uri: str) -> dict[str, str] | None:
        """Read the variables of a URI, percent-decoded; ``None`` when it is none of this template."""
        found = self.pattern.fullmatch(uri) if len(uri) <= MAX_URI else None
        if found is None:
            return None
        try:
            return {name: unquote(value, errors="strict") for name, value in found.groupdict().items()}
        except UnicodeDecodeError:
            return None


def is_template(uri: str) -> bool:
    return "{" in uri or "}" in uri


def checked_uri(uri: str) -> str:
    """Take a URI that begins with its scheme and has nothing in it that must be percent-encoded.

    :raises TypeError, ValueError: for anything else.
    """
    if not isinstance(uri, str):
        raise TypeError(f"a resource's URI must be a str such as 'articles://latest', not {type(uri).__name__}")
    if not _URI.fullmatch(uri):
        raise ValueError(f"{uri!r} cannot be a resource's URI; write one such as 'articles://latest'")
    return uri


def parse_template(text: str) -> UriTemplate:
    """Read a template.

    ``{name}`` stands for a part without a slash, ``{+path}`` for one that may have some. Where something other than a
    slash stands between two variables, the first of them ends where that begins; but a ``{+path}`` goes on to the last
    of it.

    :raises ValueError: for what could not be read back from a URI.
    """
    if is_template(_EXPRESSION.sub("", text)):
        raise ValueError(f"the braces of {text!r} do not match")
    expressions = list(_EXPRESSION.finditer(text))
    variables: dict[str, str] = {}
    pattern, end, resumed = "", 0, ""
    for position, expression in enumerate(expressions):
        variable = _VARIABLE.fullmatch(expression[1])
        if variable is None:
            raise ValueError(f"{expression[0]} in {text!r} cannot be read back from a URI; use {{name}} or {{+path}}")
        reserved, name = variable.groups()
        if name in variables:
            raise ValueError(f"{name!r} stands twice in {text!r}; give one of them another name")
        if reserved and "+" in variables.values():
            raise ValueError(f"{text!r} has two variables with a '+'; it must be clear where one of them ends")
        if variables and expression.start() == end:
            raise ValueError(f"{expression[0]} in {text!r} follows another variable at once; put a text between them")
        variables[name] = reserved
        pattern += re.escape(text[end : expression.start()])
        end = expression.end()
        # Up to what follows and no further: trying every length of every variable would take for ever.
        following = text[end : expressions[position + 1].start()] if position + 1 < len(expressions) else ""
        if reserved:
            pattern += f"(?P<{name}>.+)"
            resumed = f"(?!{re.escape(following)})" if following else ""
        else:
            character = f"[^/?#{re.escape(following[:1])}]"
            pattern += f"(?P<{name}>(?:{resumed}{character})+)" if resumed else f"(?P<{name}>{character}+)"
    return UriTemplate(text, tuple(variables), re.compile(pattern + re.escape(text[end:]), re.DOTALL))
