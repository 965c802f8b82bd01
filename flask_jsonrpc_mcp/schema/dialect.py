"""The JSON Schema that is spoken here: 2020-12 where no other is named, with patterns as ECMA-262 reads them."""

from __future__ import annotations

import functools
import re

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# What \s is in ECMA-262; with re.ASCII, Python's is only the first part of it.
_SPACE = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_ESCAPE_CLASS_OR_END = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


@functools.lru_cache(maxsize=512)
def ecma(pattern: str) -> re.Pattern[str]:
    """Compile a pattern as ECMA-262 reads it.

    There ``$`` is the very end, where Python's also matches before a final newline; digits and letters are those of
    ASCII, white space is that of Unicode.
    """
    return re.compile(_ESCAPE_CLASS_OR_END.sub(_in_python, pattern), re.ASCII)


def _in_python(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith("["):
        return re.sub(r"\\.", lambda escape: _SPACE if escape[0] == r"\s" else escape[0], token, flags=re.DOTALL)
    return {"$": r"\Z", r"\s": f"[{_SPACE}]", r"\S": f"[^{_SPACE}]"}.get(token, token)
