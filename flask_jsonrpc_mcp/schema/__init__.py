"""Describe and validate what a method takes and returns.

``params=`` and ``output=`` are a JSON Schema dict, a marshmallow schema or a dict of marshmallow fields, or a pydantic
model; by default the function's type hints. All become a `Shape`, a JSON Schema that is published and enforced.
Mistakes raise when the method is registered; the validator is compiled for the first call. In the order to read them:

* ``shape``: `Shape`, `Params`, which binds the arguments of a call, and the messages for invalid values
* ``params``: from a declaration to `Params`; ``forms``: the same for elicitation
* ``types``: from hints to JSON Schema, and back from JSON to Python values; ``signatures``: which hints there are, and
  what ``Annotated`` adds to them
* ``marshmallow_schemas``, ``pydantic_types``: the same for the classes of these libraries
* ``dialects``: check schemas; ``validator``: jsonschema with our keywords
* ``texts``: arguments that arrive as text, formats and patterns
* ``walk``: build and traverse schemas
"""

from .params import MIRROR_KEYWORD, compile_output, compile_params, mirrored_arguments
from .shape import MirroredArgument, Params, SchemaSpec, Shape
from .signatures import Function
from .texts import read_texts
from .walk import Secret

__all__ = [
    "MIRROR_KEYWORD",
    "Function",
    "MirroredArgument",
    "Params",
    "SchemaSpec",
    "Secret",
    "Shape",
    "compile_output",
    "compile_params",
    "mirrored_arguments",
    "read_texts",
]
