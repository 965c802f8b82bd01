"""What every face of a blueprint shares, none of it tied to a request."""

from __future__ import annotations

from dataclasses import dataclass

from .access import Authenticator, Caller
from .catalogue import Catalogue
from .dispatcher import Dispatcher
from .errors import Forbidden, Unauthorized
from .registry import Registry


@dataclass(frozen=True)
class Core:
    """The methods of a blueprint, and who may use them.

    :param require_auth: Nobody is served without credentials.
    :param discover_access: The permissions it takes to list and describe tools.
    """

    registry: Registry
    catalogue: Catalogue
    dispatcher: Dispatcher
    authenticator: Authenticator
    require_auth: bool = False
    discover_access: frozenset[str] = frozenset()

    def admit(self) -> Caller:
        """Find out who sent the current request, and whether they may come in at all.

        :raises Unauthorized: when credentials are wrong, or missing where they are needed.
        """
        caller = self.authenticator.identify()
        if self.require_auth and caller.anonymous:
            raise Unauthorized()
        return caller

    def require_discovery(self, caller: Caller) -> None:
        """Let a caller list and describe tools.

        :raises Unauthorized: to an anonymous caller who could sign in.
        :raises Forbidden: to everyone else without the permissions.
        """
        if not caller.has(self.discover_access):
            raise Unauthorized() if caller.may_sign_in else Forbidden()
