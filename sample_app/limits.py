"""Limits of values that every database can store.

Without them, a value that is too large would fail in the database as a server error, and not as an error of the caller.
"""

from __future__ import annotations

MAX_INTEGER = 2**31 - 1

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,31}$"
TEXT_PATTERN = r"^[^\u0000]*$"
"""Anything but NUL, which PostgreSQL cannot store."""
LINE_PATTERN = r"^[^\s\u0000]([^\u0000\r\n]*[^\s\u0000])?$"
"""One line without spaces around it."""
