"""The query strings and the body that the REST face takes, as marshmallow schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, pre_load, validate

from ..errors import MissingParameter


class ListQuery(Schema):
    """The query string of ``list``."""

    cursor = fields.String()


class DescribeQuery(Schema):
    """The query string of ``describe``."""

    name = fields.String(required=True, validate=validate.Length(min=1))


class InvokeBody(Schema):
    """The body of ``invoke``."""

    name = fields.String(required=True, validate=validate.Length(min=1))
    arguments = fields.Dict(required=True)

    @pre_load
    def accept_empty_list(self, body: Any, **kwargs: Any) -> Any:
        """PHP clients send an empty list in place of an empty object."""
        return {**body, "arguments": {}} if isinstance(body, dict) and body.get("arguments") == [] else body


_SCHEMAS: dict[str, Schema] = {
    "list": ListQuery(unknown=EXCLUDE),
    "describe": DescribeQuery(unknown=EXCLUDE),
    "invoke": InvokeBody(unknown=EXCLUDE),
}


def load(name: str, source: Any) -> Mapping[str, Any]:
    """Load the query string or body of ``list``, ``describe`` or ``invoke``.

    :raises MissingParameter: naming the first invalid member.
    """
    schema = _SCHEMAS[name]
    try:
        loaded: Mapping[str, Any] = schema.load(source)
    except ValidationError as error:
        # In declared order; if the source is not an object, marshmallow names "_schema".
        wrong = next((member for member in schema.fields if member in error.messages), next(iter(schema.fields)))
        raise MissingParameter(wrong) from error
    return loaded
