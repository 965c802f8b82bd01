"""The libraries of the ``speed`` extra, where they are installed: the same answers, sooner.

A library that is not there is ``None``, and tests make it so.

jsonschema-rs says yes to values that fit a schema, see `schema.quick`. orjson writes JSON where it writes the very
bytes that Python's own writer would. They differ on very large and very small floats (``1e16`` and ``1e+16``,
``0.00001`` and ``1e-05``), which are recognised in what it wrote. What else it would write in another way or not at all
(integers beyond 64 bits, half a surrogate pair, member names that are not text, nesting beyond 254 levels) makes it
raise, and Python's writer has the last word.

It is a generous reader: it keeps the last of two members of one name, and makes floats of integers beyond 64 bits. So
what it has read counts only if it writes the very bytes of it again, as it does with what most clients send: JSON
without spaces or needless escapes.
"""

from __future__ import annotations

import re
from typing import Any

jsonschema_rs: Any
try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None

orjson: Any
try:
    import orjson
except ImportError:
    orjson = None

# What is not plain is not orjson's business: Python's writer refuses it.
_PLAIN_ONLY = ("OPT_PASSTHROUGH_DATACLASS", "OPT_PASSTHROUGH_DATETIME", "OPT_PASSTHROUGH_SUBCLASS")
_OPTIONS = 0 if orjson is None else sum(getattr(orjson, option) for option in _PLAIN_ONLY)
# What is in every float that orjson spells in its own way. Text may have it too; then it is written twice, and right.
_EXPONENT, _ZEROS = re.compile(rb"e-?[0-9]"), b"0.0000"


def read_quickly(text: bytes) -> tuple[Any] | None:
    """Read JSON with orjson: one value; ``None`` where it is not there, or has not read every byte for what it is."""
    # Python's writer puts these spaces everywhere; there is no use in trying.
    if orjson is None or b'": ' in text:
        return None
    try:
        value = orjson.loads(text)
        return (value,) if orjson.dumps(value) == text else None
    except (TypeError, ValueError):
        return None


def write_quickly(value: Any) -> bytes | None:
    """Spell a plain value as JSON with orjson; ``None`` where it is not there or would spell it in another way."""
    if orjson is None:
        return None
    try:
        written: bytes = orjson.dumps(value, None, _OPTIONS)
    except TypeError:
        return None
    return None if _EXPONENT.search(written) or _ZEROS in written else written
