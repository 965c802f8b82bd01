"""The shape of a value: the JSON Schema that is shown, and the validator made of that very dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import Problem
from ..strict_json import to_plain
from .late import compile_validator, find_problems
from .quick import Fits, quick_check

if TYPE_CHECKING:
    import marshmallow
    from jsonschema.protocols import Validator

SchemaSpec: TypeAlias = "marshmallow.Schema | type[marshmallow.Schema] | Mapping[str, Any]"
"""What ``params=`` and ``output=`` take: a JSON Schema, a marshmallow schema, or a dict of marshmallow fields."""


class ResultError(Exception):
    """What a method returned is not what it declared. The caller never sees why; the log does."""


class Shape:
    """A JSON Schema that is shown and enforced.

    :param dump: What turns a method's result into the value that is validated and sent.
    :param enforced: Whether results are validated; otherwise the schema is only shown.
    """

    def __init__(self, schema: dict[str, Any], dump: Callable[[Any], Any] = to_plain, *, enforced: bool = True) -> None:
        self.schema = schema
        self.dump = dump
        self.enforced = enforced

    # Made when they are first needed: of a thousand methods a process may never run more than a few.
    @cached_property
    def validator(self) -> Validator:
        return compile_validator(self.schema)

    @cached_property
    def fits(self) -> Fits:
        return quick_check(self.schema)

    def problems(self, value: Any) -> list[Problem]:
        try:
            if self.fits(value):
                return []
        except (ValueError, RecursionError, OverflowError):
            pass  # too deep, too large, or of no form in JSON
        return find_problems(self.validator, value)

    def dump_result(self, result: Any) -> Any:
        """Turn a result into plain JSON.

        :raises ResultError: when it breaks the declared schema.
        """
        plain = self.dump(result)
        problems = self.problems(plain) if self.enforced else []
        if problems:
            raise ResultError("the result breaks the output schema: " + "; ".join(map(str, problems)))
        return plain
