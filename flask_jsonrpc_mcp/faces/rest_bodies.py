"""What the REST face takes, in a query string or in a body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import marshmallow
from marshmallow import fields

from ..errors import MissingParameter


class _Name(fields.Raw):
    """The name of a tool."""

    def _validate(self, value: Any) -> None:
        if not isinstance(value, str) or not value:
            raise marshmallow.ValidationError("not a name")


class _Arguments(fields.Raw):
    """The arguments of a call by name. PHP clients send an empty list when there are none."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return {} if value == [] and isinstance(value, list) else value

    def _validate(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise marshmallow.ValidationError("not an object")


class ListQuery(marshmallow.Schema):
    """What ``list`` takes in the query string."""

    cursor = fields.String()


class DescribeQuery(marshmallow.Schema):
    """What ``describe`` takes in the query string."""

    name = _Name(required=True)


class InvokeBody(marshmallow.Schema):
    """What ``invoke`` takes in its body."""

    name = _Name(required=True)
    arguments = _Arguments(required=True)


_EXPECTED: dict[str, marshmallow.Schema] = {
    "list": ListQuery(unknown=marshmallow.EXCLUDE),
    "describe": DescribeQuery(unknown=marshmallow.EXCLUDE),
    "invoke": InvokeBody(unknown=marshmallow.EXCLUDE),
}


def load(expected: str, source: Any) -> Mapping[str, Any]:
    """Read what ``list``, ``describe`` or ``invoke`` expects.

    :raises MissingParameter: naming what is missing or wrong.
    """
    schema = _EXPECTED[expected]
    try:
        loaded: Mapping[str, Any] = schema.load(source)
    except marshmallow.ValidationError as error:
        # The first in declared order; "_schema" when the source is no object at all.
        wrong = next((name for name in schema.fields if name in error.messages), next(iter(schema.fields)))
        raise MissingParameter(wrong) from error
    return loaded
