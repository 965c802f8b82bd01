"""What will break before a client does: small checks of tools, settings, sign-in and server, in tables.

``flask mcp doctor`` shows what they find, and tests can ask for the same.
"""

from .examining import examine
from .findings import Finding

__all__ = ["Finding", "examine"]
