"""A quick yes: most values fit their schema, and to say so takes less than to list what is wrong.

A check made here may say no to a value that fits; then nothing is found to be wrong with it. It never says yes to one
that does not fit. With the ``speed`` extra, jsonschema-rs checks the schemas that it reads as jsonschema does, see
`likeness`; for all others there is `jsonschema_quick`. So it is with schemas themselves, which most often are valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from .. import speed
from . import late
from .dialect import ecma
from .formats import has_format
from .likeness import is_read_alike
from .patterns import check_pattern

Fits = Callable[[Any], bool]
"""Says yes to a value only if it fits. May raise for what is too deep, too large or of no form in JSON."""


def quick_check(schema: Mapping[str, Any]) -> Fits:
    """Make the quick check of a schema that was checked or generated here."""
    return _by_jsonschema_rs(schema) or late.quick_check(schema)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check a schema that was not generated here.

    :raises ValueError: when it is not valid, or has a reference that does not lead into itself.
    """
    if not _is_surely_valid(schema):
        late.check_schema(schema)


def _is_surely_valid(schema: Mapping[str, Any]) -> bool:
    jsonschema_rs = speed.jsonschema_rs()
    if jsonschema_rs is None or "$schema" in schema:
        return False
    try:
        return jsonschema_rs.meta.is_valid(schema) and is_read_alike(schema, _is_safe_pattern)
    except ValueError:  # what has no form in JSON, such as half a surrogate pair
        return False


def _is_safe_pattern(pattern: str) -> bool:
    try:
        re.compile(pattern)  # as jsonschema does with any
        check_pattern(ecma(pattern).pattern)
    except (ValueError, re.error):
        return False
    return True


def _by_jsonschema_rs(schema: Mapping[str, Any]) -> Fits | None:
    jsonschema_rs = speed.jsonschema_rs()
    if jsonschema_rs is None or not is_read_alike(schema):
        return None
    try:
        compiled = jsonschema_rs.Draft202012Validator(
            schema,
            keywords={"pattern": _Pattern, "format": _Format},
            # These schemas have nothing to fetch; this sees to it that nothing ever is.
            retriever=_refuse,
        )
    except (TypeError, ValueError):
        return None
    fits: Fits = compiled.is_valid
    return fits


class _Pattern:
    """Our rule for patterns, as jsonschema-rs calls it."""

    def __init__(self, parent: object, pattern: str, path: object) -> None:
        self._search = ecma(pattern).search

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str) and not self._search(instance):
            raise ValueError


class _Format:
    """Our formats, as jsonschema-rs calls them."""

    def __init__(self, parent: object, format: str, path: object) -> None:
        self._format = format

    def validate(self, instance: Any) -> None:
        if not has_format(instance, self._format):
            raise ValueError


def _refuse(uri: str) -> NoReturn:
    raise ValueError("nothing is ever fetched")
