"""What a method takes and gives, in three spellings with one result: a `Shape` that is both shown and enforced.

``params=`` and ``output=`` are a JSON Schema dict, a marshmallow schema, or, when not given, the function's type hints.
What can be wrong with them is found once, when a method is added; what checks values is compiled for the first of them.
"""

from .outputs import compile_output
from .params import Params, compile_params
from .reading import Function
from .shape import Shape

__all__ = ["Function", "Params", "Shape", "compile_output", "compile_params"]
