"""`Shape`: a JSON Schema that is published to clients and enforced on values.

jsonschema, marshmallow and pydantic take longer to import than everything else an app with tools needs. So this package
imports `validator`, `marshmallow_schemas` and `pydantic_types` inside functions, for the first value or declaration
that needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import Problem
from ..strict_json import to_plain

if TYPE_CHECKING:
    import marshmallow
    import pydantic
    from jsonschema.protocols import Validator

    from .marshmallow_schemas import MarshmallowSchema
    from .pydantic_types import PydanticType
    from .walk import Schema


SchemaSpec: TypeAlias = "marshmallow.Schema | type[marshmallow.Schema] | type[pydantic.BaseModel] | Mapping[str, Any]"
"""What ``params=`` and ``output=`` take: JSON Schema, a marshmallow schema, a dict of its fields, a pydantic model."""


class ResultError(Exception):
    """A method returned something else than it declared. The reason goes to the log, not to the caller."""


class Run:
    """What is known while one value is validated, and then loaded.

    :param deciding: Only yes or no matters, so that one error is as good as all.
    :param collecting: Validate nothing, but collect the members, or items, that a schema has rules for.
    """

    def __init__(self, *, deciding: bool = False, collecting: bool = False) -> None:
        self.deciding = deciding
        self.collecting = collecting
        self.collected: set[Any] = set()
        self.fits: dict[int, dict[int, bool]] = {}
        """Whether an object or a list fits what a reference leads to, by the ids of the reference and the value."""

    @classmethod
    def within(cls, *, deciding: bool = False, collecting: bool = False) -> Run:
        """Make a run for the same value, or a part of it, that knows what the run around it knows."""
        run, around = cls(deciding=deciding, collecting=collecting), RUN.get(None)
        if around is not None:
            run.fits = around.fits
        return run

    def __enter__(self) -> Run:
        self._token = RUN.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        RUN.reset(self._token)


RUN: ContextVar[Run] = ContextVar("run")


@dataclass(frozen=True, eq=False)
class Shape:
    """A JSON Schema that is shown to clients and enforced on values.

    :param dump: Makes plain JSON of a method's result, which is then validated and sent.
    :param enforced: Validate results; otherwise the schema is only shown.
    :param generated: `types` generated the schema, without keywords that jsonschema-rs could read in another way.
    """

    schema: dict[str, Any]
    dump: Callable[[Any], Any] = to_plain
    enforced: bool = True
    generated: bool = False

    # Compiled for the first value, because a process may never call most of its methods.
    @cached_property
    def _validator(self) -> Validator:
        from .validator import compile_validator

        return compile_validator(self.schema)

    @cached_property
    def _accepts(self) -> Callable[[Any], bool] | None:
        # A method that returns dict declares just this, and most do.
        if self.schema == {"type": "object"}:
            return lambda value: isinstance(value, dict)
        if not self.generated:
            return None
        from .validator import compile_fast_accept

        return compile_fast_accept(self.schema)

    def problems(self, value: Any, run: Run | None = None) -> list[Problem]:
        """List what is wrong with a value, up to a limit.

        :param run: What is found out about the value goes here, for the function that loads it.
        """
        try:
            if self._accepts is not None and self._accepts(value):
                return []
        except (ValueError, OverflowError, RecursionError):
            pass  # jsonschema-rs cannot read it, such as half a surrogate pair
        from .problems import find_problems

        with run or Run():
            return find_problems(self._validator, value)

    def fits(self, value: Any) -> bool:
        """Return whether nothing is wrong with a part of a value without problems."""
        if self._accepts is not None and self._accepts(value):
            return True
        with Run.within(deciding=True):
            return self._validator.is_valid(value)

    def dump_result(self, result: Any) -> Any:
        """Make plain JSON of a result.

        :raises ResultError: if it breaks the declared schema.
        """
        plain = self.dump(result)
        problems = self.problems(plain) if self.enforced else []
        if problems:
            raise ResultError("the result breaks the output schema: " + "; ".join(map(str, problems)))
        return plain


def check_schema(schema: Schema) -> None:
    """Check a JSON Schema that was not generated here.

    :raises ValueError: if it is not valid, or has a reference that leads out of it.
    """
    from .validator import check_schema as check

    check(schema)


def as_marshmallow(spec: Any) -> MarshmallowSchema | None:
    """Convert a marshmallow schema class, an instance or a dict of fields; ``None`` for anything else."""
    if "marshmallow" not in sys.modules:
        return None  # then nothing can be of one of its classes
    from .marshmallow_schemas import as_marshmallow as convert

    return convert(spec)


def as_pydantic(spec: Any, *, output: bool = False) -> PydanticType | None:
    """Convert a pydantic model; ``None`` for anything else."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(spec, type) or not issubclass(spec, pydantic.BaseModel):
        return None
    from .pydantic_types import PydanticType

    return PydanticType(spec, output=output)
