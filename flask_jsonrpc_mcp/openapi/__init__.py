"""OpenAPI in both directions: a document of the tools, and tools from the document of an API that the app has.

* ``document``: describe the tools as OpenAPI 3.1
* ``operations``: read an OpenAPI 3 or Swagger 2 document, choose operations, and convert schemas to JSON Schema
* ``api_arguments``: the input schema of an operation, and where each argument goes in the request
* ``endpoint``: send a request to the app's own endpoint, in this process; ``responses``: from its response to a result
* ``tools``: put these together, for a document and for the URL map
"""

from .operations import Operation

__all__ = ["Operation"]
