"""Describe and validate what a method takes and returns.

``params=`` and ``output=`` are a JSON Schema dict, a marshmallow schema or a dict of marshmallow fields; without them
the function's type hints count. All become a `Shape`, a JSON Schema that is shown and enforced. Mistakes raise when the
method is added; the validator is compiled for the first call.
"""

from .params import MIRROR_KEYWORD, MirroredArgument, Params, compile_output, compile_params, read_texts
from .shape import SchemaSpec, Shape
from .signatures import Function

__all__ = [
    "MIRROR_KEYWORD",
    "Function",
    "MirroredArgument",
    "Params",
    "SchemaSpec",
    "Shape",
    "compile_output",
    "compile_params",
    "read_texts",
]
