"""What a value may be, so that every database can hold it.

A value beyond these would fail in the database: an error of the server, where it should be one of the caller.
"""

from __future__ import annotations

MAX_INTEGER = 2**31 - 1

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,31}$"
TEXT_PATTERN = r"^[^\u0000]*$"
"""Anything but NUL, which PostgreSQL cannot store."""
LINE_PATTERN = r"^[^\s\u0000]([^\u0000\r\n]*[^\s\u0000])?$"
"""One line without spaces around it. A pattern is tried on text of any length, so it must not backtrack far."""
