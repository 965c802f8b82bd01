"""`Shape`: a JSON Schema that is published to clients and enforced on values, and the messages for invalid ones.
`Params`: the shape of a method's arguments, and how they are passed to its function.

jsonschema, marshmallow and pydantic take longer to import than everything else an app with tools needs. So this package
imports `validator`, `dialects`, `marshmallow_schemas` and `pydantic_types` inside functions, for the first value or
declaration that needs them.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..errors import InvalidParams
from ..problems import MAX_PROBLEMS, MAX_QUOTED, Problem, one_line, pointer
from ..strict_json import to_plain
from .walk import ERROR_TEXTS, Schema, type_name

if TYPE_CHECKING:
    import marshmallow
    import pydantic
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

    from .marshmallow_schemas import MarshmallowSchema
    from .pydantic_types import PydanticType


SchemaSpec: TypeAlias = "marshmallow.Schema | type[marshmallow.Schema] | type[pydantic.BaseModel] | Mapping[str, Any]"
"""What ``params=`` and ``output=`` take: JSON Schema, a marshmallow schema, a dict of its fields, a pydantic model."""

_LIMITS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "const": "must be {}",
    "enum": "must be one of {}",
    "pattern": "must match the pattern {}",
    "format": "must be a valid {}",
}
_TEXTS = {
    "required": "is required",
    "uniqueItems": "must not have the same item twice",
    **dict.fromkeys(("false", "None"), "is not expected here"),  # for a schema of `false`, ours and jsonschema's
}


class ResultError(Exception):
    """The result does not match the declared schema. The reason goes to the log, not to the caller."""


@dataclass
class Validation:
    """The state of the validation of one value, and of the loading that follows. A context manager.

    jsonschema calls the function of a keyword without any state, so it is in `running_validation`.

    :param fits: Cached results: whether an object or list is valid, by the ids of the reference and of the value.
    :param fail_fast: Only yes or no matters, so one error is enough.
    :param collecting: Do not validate, but collect the members, or items, that a schema evaluates.
    """

    fits: dict[int, dict[int, bool]] = field(default_factory=dict)
    fail_fast: bool = False
    collecting: bool = False
    collected: set[Any] = field(default_factory=set)

    def nested(self, *, fail_fast: bool = False, collecting: bool = False) -> Validation:
        """Return the state for a part of the value, with the same cache."""
        return Validation(self.fits, fail_fast, collecting)

    def __enter__(self) -> Validation:
        self._token = running_validation.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        running_validation.reset(self._token)


running_validation: ContextVar[Validation] = ContextVar("flask_jsonrpc_mcp.running_validation")


@dataclass(frozen=True, eq=False)
class Shape:
    """A JSON Schema that is published to clients and enforced on values.

    :param dump: Converts the result of a method to plain JSON values, which are then validated and sent.
    :param enforced: Validate results; otherwise the schema is only published.
    :param generated: `types` generated the schema, without keywords that jsonschema-rs treats differently.
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
        # The schema of "-> dict", which most methods have.
        if self.schema == {"type": "object"}:
            return lambda value: isinstance(value, dict)
        if not self.generated:
            return None
        from .validator import compile_fast_accept

        return compile_fast_accept(self.schema)

    def problems(self, value: Any) -> list[Problem]:
        """List what is wrong with a value, in the order of the schema, at most `MAX_PROBLEMS`."""
        if self._is_accepted(value):
            return []
        with Validation():
            return self._find_problems(value)

    def load(self, value: Any, load: Callable[[Any], Any], others: Sequence[Problem] = ()) -> Any:
        """Validate a value, and load it with a function, which may call `fits` for parts of it.

        :param others: More problems to report.
        :raises InvalidParams: with every problem.
        """
        with Validation():
            problems = [] if self._is_accepted(value) else self._find_problems(value)
            if problems or others:
                raise InvalidParams([*problems, *others])
            return load(value)

    def _is_accepted(self, value: Any) -> bool:
        try:
            return self._accepts is not None and self._accepts(value)
        except (ValueError, OverflowError, RecursionError):
            return False  # jsonschema-rs cannot read it, such as half a surrogate pair

    def _find_problems(self, value: Any) -> list[Problem]:
        problems: list[Problem] = []
        try:
            for error in self._validator.iter_errors(value):
                problems += itertools.islice(_problems_of(error), MAX_PROBLEMS - len(problems))
                if len(problems) == MAX_PROBLEMS:
                    break
            return problems
        except (RecursionError, OverflowError):
            # A rule such as multipleOf: 0.1 cannot be computed for every number that JSON can have.
            return [Problem("", "could not be checked against the schema")]

    def fits(self, value: Any) -> bool:
        """Return whether a part of the value that is being loaded is valid."""
        if self._is_accepted(value):
            return True
        with running_validation.get().nested(fail_fast=True):
            return self._validator.is_valid(value)

    def dump_result(self, result: Any) -> Any:
        """Convert a result to plain JSON values.

        :raises ResultError: if it does not match the schema.
        """
        plain = self.dump(result)
        problems = self.problems(plain) if self.enforced else []
        if problems:
            raise ResultError("the result does not match the output schema: " + "; ".join(map(str, problems)))
        return plain


class MirroredArgument(NamedTuple):
    """An argument, by its path of properties, and the name of the header that repeats it."""

    header: str
    path: tuple[str, ...]

    def value_in(self, arguments: Any) -> Any:
        """Find its value; ``None`` if it is missing."""
        for step in self.path:
            arguments = arguments.get(step) if isinstance(arguments, Mapping) else None
        return arguments


@dataclass(frozen=True, eq=False)
class Params:
    """The parameters of a method.

    :param load: Converts valid arguments to the values that the function takes.
    :param whole: The function has one parameter, which takes all arguments as one object.
    :param reserved: Names that Python passes itself, such as the ``self`` of a bound method.
    :param mirrored: The arguments that HTTP clients repeat in headers.
    """

    shape: Shape
    load: Callable[[Mapping[str, Any]], Any] = dict
    whole: bool = False
    reserved: frozenset[str] = frozenset()
    mirrored: tuple[MirroredArgument, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        return self.shape.schema

    def bind(self, arguments: Mapping[str, Any] | Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Validate arguments, by name or by position, and convert them to those of the Python call.

        :raises InvalidParams: with every problem.
        """
        named = arguments if isinstance(arguments, Mapping) else self._by_name(arguments)
        collisions = self.reserved & named.keys()
        others = [Problem(pointer("", name), "is not expected here") for name in collisions] if collisions else []
        loaded = self.shape.load(named, self.load, others)
        if self.whole:
            return (loaded,), {}
        if not isinstance(loaded, Mapping):
            raise TypeError(
                f"params loads a {type(loaded).__name__}, but the function takes its arguments by name;"
                " give it one parameter for all of them"
            )
        return (), dict(loaded)

    def _by_name(self, values: Sequence[Any]) -> dict[str, Any]:
        names = list(self.schema["properties"])
        if len(values) > len(names):
            raise InvalidParams([Problem("", f"takes at most {len(names)} arguments, got {len(values)}")])
        return dict(zip(names, values, strict=False))


def check_schema(schema: Schema) -> None:
    """Check a JSON Schema that was not generated here.

    :raises ValueError: if it is not valid, or has a reference that points out of it.
    """
    from .dialects import check_schema as check

    check(schema)


def read_classes(spec: Any, *, output: bool = False) -> MarshmallowSchema | PydanticType | None:
    """Convert a marshmallow schema, a dict of its fields or a pydantic model; ``None`` for anything else."""
    # If the library was not imported, nothing is an instance of its classes.
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(spec, type) and issubclass(spec, pydantic.BaseModel):
        from .pydantic_types import PydanticType

        return PydanticType(spec, output=output)
    if "marshmallow" in sys.modules:
        from .marshmallow_schemas import as_marshmallow

        return as_marshmallow(spec, output=output)
    return None


def describe_limit(keyword: str, limit: Any) -> str:
    """Describe what a keyword requires. The message of jsonschema would quote the whole value, however long."""
    text = limit if isinstance(limit, str) else json.dumps(limit, ensure_ascii=False, default=str)
    message = _LIMITS[keyword].format(one_line(text, MAX_QUOTED))
    return message.removesuffix("s") if limit == 1 else message


def _problems_of(error: ValidationError, base: str = "") -> Iterable[Problem]:
    path = pointer(base, *error.path)
    # Only a `validator.NoAlternative` has the errors of each alternative.
    intended = _intended_alternative(getattr(error, "alternatives", []))
    if intended:
        return itertools.chain.from_iterable(_problems_of(inner, path) for inner in intended)
    return [Problem(path, _message_of(error))]


def _message_of(error: ValidationError) -> str:
    keyword = str(error.validator)
    rule: Any = error.validator_value
    own: Any = error.schema.get(ERROR_TEXTS) if isinstance(error.schema, Mapping) else None
    if isinstance(own, Mapping) and keyword in own:
        return one_line(str(own[keyword]), MAX_QUOTED)
    if keyword == "type":
        return _wrong_type([rule] if isinstance(rule, str) else rule, error.instance)
    if keyword in ("anyOf", "oneOf"):
        return _no_alternative(error)
    if keyword in _LIMITS:
        return describe_limit(keyword, rule)
    return _TEXTS.get(keyword, f"breaks the rule {keyword!r}")


def _wrong_type(wanted: Iterable[object], value: object) -> str:
    return f"must be of type {' or '.join(map(str, wanted))}, not {type_name(value)}"


def _intended_alternative(alternatives: list[list[ValidationError]]) -> list[ValidationError] | None:
    """Find the alternative that the caller meant: the only one of that type, or the one that const members choose."""
    typed = [inners for inners in alternatives if not any(map(_is_mistyped, inners))]
    if len(typed) == 1:
        return typed[0]
    chosen = [inners for inners in typed if not any(map(_is_other_choice, inners))]
    return chosen[0] if len(chosen) == 1 else None


def _is_mistyped(inner: ValidationError) -> bool:
    return inner.validator == "type" and not inner.path


def _is_other_choice(inner: ValidationError) -> bool:
    return inner.validator in ("const", "enum") and len(inner.path) == 1


def _no_alternative(error: ValidationError) -> str:
    """Name the types that would fit if the type is wrong, else what is wrong furthest inside the value."""
    alternatives: list[list[ValidationError]] | None = getattr(error, "alternatives", None)
    if alternatives is None:
        return "must match exactly one of the alternatives"
    mistyped = [[inner for inner in inners if _is_mistyped(inner)] for inners in alternatives]
    if mistyped and all(mistyped):
        return _wrong_type([inners[0].validator_value for inners in mistyped], error.instance)
    deepest = max(itertools.chain(*alternatives), key=lambda inner: len(inner.path), default=error)
    if not deepest.path or deepest is error:
        return "matches none of the alternatives"
    [problem, *_] = _problems_of(deepest)
    return f"matches none of the alternatives ({problem})"
