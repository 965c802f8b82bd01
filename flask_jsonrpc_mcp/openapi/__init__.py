"""OpenAPI in both directions: a document of the tools, and tools from the document of an API that the app has.

* ``document``: describe the tools as OpenAPI 3.1
* ``operations``: read an OpenAPI 3 or Swagger 2 document, and choose operations; ``views``: the same for the URL map
* ``api_arguments``: the input schema of an operation, and where each argument goes in the request
* ``api_schemas``: from the schemas of OpenAPI 3.0 and Swagger 2 to JSON Schema
* ``endpoint``: send a request to the app's own endpoint, in this process; ``responses``: from its response to a result
* ``tools``: put these together; ``findings``: what the doctor finds about them
"""

from .operations import Operation

__all__ = ["Operation"]
