"""Describe, load and dump pydantic's models, dataclasses and types with pydantic itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pydantic
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from .. import strict_json
from ..errors import InvalidParams
from ..problems import MAX_QUOTED, Problem, one_line, pointer
from .shape import ResultError, check_schema
from .walk import has_references, inline_references


class PydanticType:
    """A hint that pydantic reads, with the same members as `MarshmallowSchema`.

    :raises TypeError: if pydantic cannot generate its JSON Schema.
    """

    def __init__(self, hint: Any, *, output: bool = False) -> None:
        self._hint = hint
        try:
            self._adapter = pydantic.TypeAdapter[Any](hint)
            schema = self._adapter.json_schema(
                mode="serialization" if output else "validation", schema_generator=_Generator
            )
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise TypeError(f"pydantic cannot describe it: {error.message}") from error
        check_schema(schema)
        inlined = inline_references(schema)
        inlined.pop("$defs", None)
        self.schema = schema if has_references(inlined) else inlined

    @property
    def names(self) -> dict[str, bool]:
        """The names of a model's fields after loading. A missing one has its default."""
        return dict.fromkeys(self._hint.model_fields, True)

    @property
    def passes_unknown(self) -> bool:
        """Whether a model keeps members that it does not declare."""
        return bool(self._hint.model_config.get("extra") == "allow")

    def load(self, value: Any) -> Any:
        """Load a JSON value.

        :raises InvalidParams: with every problem.
        """
        try:
            # As JSON, because only then a strict model takes a text for a date.
            return self._adapter.validate_json(strict_json.write(value))
        except pydantic.ValidationError as error:
            raise InvalidParams(problems_of_errors(error, functools.partial(_path_in, value))) from error

    def load_members(self, value: Any) -> dict[str, Any]:
        """Load a JSON object, and return the fields of the model by name."""
        return dict(self.load(value))

    def dump(self, result: Any) -> Any:
        """Dump a result, which may be an object or a mapping with the same fields, as plain JSON."""
        try:
            loaded = self._adapter.validate_python(result, from_attributes=True)
        except pydantic.ValidationError as error:
            problems = "; ".join(map(str, problems_of_errors(error)))
            raise ResultError(f"the result is not a {self._hint.__name__}: {problems}") from error
        return strict_json.to_plain(self._adapter.dump_python(loaded, mode="json", by_alias=True))


def problems_of_errors(
    error: pydantic.ValidationError, path_of: Callable[[tuple[int | str, ...], str], Sequence[object]] | None = None
) -> list[Problem]:
    """List the errors of a `pydantic.ValidationError`.

    :param path_of: Converts pydantic's path, and the type of the error, to the path in the JSON value.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)
    paths = [each["loc"] if path_of is None else path_of(each["loc"], each["type"]) for each in found]
    return [
        Problem(pointer("", *path), one_line(each["msg"], MAX_QUOTED)) for path, each in zip(paths, found, strict=True)
    ]


class _Generator(GenerateJsonSchema):
    """Generates schemas without a title for each field, and closed unless the class sets ``extra``."""

    ignored_warning_kinds = GenerateJsonSchema.ignored_warning_kinds | {"non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        return self._closed(super().model_schema(schema), schema["cls"].model_config)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        return self._closed(super().dataclass_schema(schema), getattr(schema["cls"], "__pydantic_config__", {}))

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        alternatives = super().tagged_union_schema(schema)
        alternatives.pop("discriminator", None)  # of OpenAPI; it refers to definitions, which are inlined
        return alternatives

    def _closed(self, schema: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
        if self.mode == "serialization":
            # An instance of a subclass, with more fields, still is one.
            return {name: value for name, value in schema.items() if (name, value) != ("additionalProperties", False)}
        return schema if "extra" in config or "properties" not in schema else {**schema, "additionalProperties": False}


def _path_in(value: Any, steps: tuple[int | str, ...], error: str) -> list[Any]:
    """Keep the steps that lead into a value: pydantic also names the alternatives that it tried."""
    path: list[Any] = []
    step: Any
    for step in steps:
        if (isinstance(value, dict) and step in value) or (isinstance(value, list) and isinstance(step, int)):
            value = value[step]
            path.append(step)
    return [*path, steps[-1]] if error == "missing" else path
