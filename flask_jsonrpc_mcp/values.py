"""What the small dataclasses that users make and get have in common, written once.

`dataclass` would write it again for each of them, and so take four fifths of the time in which they are defined: with
a dozen of them, a noticeable part of what an app waits for when it starts.
"""

from __future__ import annotations


class Value:
    """Equal when its members are. For a ``@dataclass(eq=False, repr=False)``."""

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({members})"
