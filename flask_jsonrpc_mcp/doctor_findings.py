"""`Finding`, which the doctor returns, and its severities."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

ERROR = "error"
"""Something breaks, or callers can use what they should not."""
WARNING = "warning"
"""Something breaks with some clients or in some deployments."""
INFO = "info"
"""Something works, but not as one would expect."""
SEVERITIES = (ERROR, WARNING, INFO)

Problem = tuple[str, str]
"""The slug of a check, and why it matters."""


@dataclass(frozen=True)
class Finding:
    """One mistake.

    :param slug: The id of the check, which stays the same; see ``JSONRPC_MCP_DOCTOR_IGNORE``.
    :param severity: ``error``, ``warning`` or ``info``.
    :param why: What will happen, and to which callers.
    :param fix: What to do about it.
    :param tool: The tool it is about; ``None`` if it is about the blueprint or the whole app.
    :param blueprint: The blueprint it is about; ``None`` if it is about the whole app.
    """

    slug: str
    severity: str
    why: str
    fix: str
    tool: str | None = None
    blueprint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object that always has every member."""
        return asdict(self)

    def __str__(self) -> str:
        about = "" if self.tool is None else f" ({self.tool})"
        return f"{self.slug}{about}: {self.why}; {self.fix}"
