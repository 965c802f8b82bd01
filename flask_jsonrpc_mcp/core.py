"""What every face of a blueprint shares, none of it tied to a request."""

from __future__ import annotations

from typing import Any

from .access import Authenticator, Caller
from .calls import COMPLETION, METHOD, PROMPT, RESOURCE
from .catalogue import Catalogue
from .completers import Completer, name_of
from .dispatcher import Dispatcher, Finder
from .errors import Forbidden, Unauthorized
from .methods import Method
from .prompts import Prompt
from .rate_limits import RateLimits
from .registry import MethodRegistry, Registry
from .resources import Resources


class Core:
    """The methods, prompts and resources of a blueprint, and who may use them.

    :param name: The name of the blueprint.
    :param require_auth: Nobody is served without credentials.
    :param discover_access: The permissions it takes to list and describe what there is.
    """

    def __init__(
        self,
        name: str,
        authenticator: Authenticator,
        rate_limits: RateLimits,
        *,
        require_auth: bool = False,
        discover_access: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.authenticator = authenticator
        self.require_auth = require_auth
        self.discover_access = discover_access
        self.registry = MethodRegistry()
        self.prompt_registry = Registry[Prompt]()
        self.completer_registry = Registry[Completer]()
        self.catalogue = Catalogue(self.registry)
        self.prompts = Catalogue(self.prompt_registry)
        self.resources = Resources()
        self.completers = Catalogue(self.completer_registry)
        kinds: dict[str, Finder] = {
            METHOD: self.catalogue,
            PROMPT: self.prompts,
            RESOURCE: self.resources,
            COMPLETION: self.completers,
        }
        self.dispatcher = Dispatcher(kinds, rate_limits)
        self.registries: dict[str, tuple[Registry[Any], ...]] = {
            METHOD: (self.registry,),
            PROMPT: (self.prompt_registry,),
            RESOURCE: (self.resources.registry, self.resources.template_registry),
            COMPLETION: (self.completer_registry,),
        }

    @property
    def permissions(self) -> frozenset[str]:
        """All permissions that anything here needs."""
        everything = (method for kind in self.registries.values() for registry in kind for method in registry)
        return self.discover_access.union(*(method.access for method in everything))

    def remove_completers(self, completed: Method) -> None:
        """Remove the completers of something that has been removed itself."""
        for argument in completed.params.schema["properties"]:
            if self.completer_registry.get(name_of(completed.name, argument)) is not None:
                self.completer_registry.remove(name_of(completed.name, argument))

    def admit(self) -> Caller:
        """Find out who sent the current request, and whether they may come in at all.

        :raises Unauthorized: when credentials are wrong, or missing where they are needed.
        """
        caller = self.authenticator.identify()
        if self.require_auth and caller.anonymous:
            raise Unauthorized()
        return caller

    def require_discovery(self, caller: Caller) -> None:
        """Let a caller list and describe what there is.

        :raises Unauthorized: to an anonymous caller who could sign in.
        :raises Forbidden: to everyone else without the permissions.
        """
        if not caller.has(self.discover_access):
            raise Unauthorized() if caller.may_sign_in else Forbidden()
