"""What jsonschema and marshmallow do for us, imported when it is first asked for.

The two take nearly as long to import as Flask itself, in every worker and for every conversation on standard input.
An app with type hints needs no marshmallow until the REST face reads its first request, and with the ``speed`` extra
jsonschema is for what is wrong with a value, and for the schemas that `likeness` leaves to it. So the modules that need
them, ``jsonschema_*`` and ``marshmallow_*``, are imported here, inside of functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import Problem

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from .marshmallow_fields import Declared


def check_schema(schema: Mapping[str, Any]) -> None:
    """Check a schema that was not generated here.

    :raises ValueError: when it is not valid, or has a reference that does not lead into itself.
    """
    from .jsonschema_validator import check_schema

    check_schema(schema)


def knows_keyword(schema: Mapping[str, Any], keyword: str) -> bool:
    """Tell whether the dialect of a schema has a keyword."""
    from .jsonschema_validator import knows_keyword

    return knows_keyword(schema, keyword)


def compile_validator(schema: Mapping[str, Any]) -> Validator:
    """Make the validator of a schema that was checked or generated here."""
    from .jsonschema_validator import compile_validator

    return compile_validator(schema)


def quick_check(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Make a check that says yes to a value only if it fits."""
    from .jsonschema_quick import quick_check

    return quick_check(schema)


def find_problems(validator: Validator, value: Any) -> list[Problem]:
    """List what is wrong with a value, in the order in which the schema is written, up to a limit."""
    from .jsonschema_problems import find_problems

    return find_problems(validator, value)


def as_marshmallow(spec: object) -> Declared | None:
    """Take a schema class, an instance or a dict of fields; ``None`` when it is none of these."""
    if "marshmallow" not in sys.modules:  # which whoever has a schema has imported
        return None
    from .marshmallow_fields import as_marshmallow

    return as_marshmallow(spec)
