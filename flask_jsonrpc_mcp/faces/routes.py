"""A path of ours: its views by HTTP method, and what happens to every request before and after them.

As far as Flask is concerned our paths take every HTTP method, because the 405 that Flask would answer is HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flask import Request, Response

from ..access import Caller
from ..calls import log_unexpected, new_id
from ..core import Core
from ..current import this_request
from ..errors import RpcError, ServerFault, VerbNotAllowed
from .browser_guard import ORIGIN, check_browser, permit_origin
from .responses import no_content

ANY_VERB = "*"

View = Callable[..., Response]
"""Called with the core, the caller and the variables of the path."""


class Route:
    """One path below the blueprint.

    :param views: By HTTP method; that of GET serves HEAD too.
    :param spell_error: How a failure is answered in the vocabulary of this face.
    :param open: Everyone is served, and nobody is asked who they are.
    """

    def __init__(
        self,
        path: str,
        endpoint: str,
        views: Mapping[str, View],
        spell_error: Callable[[RpcError], Response],
        *,
        open: bool = False,
    ) -> None:
        self.path = path
        self.endpoint = endpoint
        self.views = {**views, "HEAD": views["GET"]} if "GET" in views else views
        self.spell_error = spell_error
        self.open = open

    def view_for(self, core: Core) -> Callable[..., Response]:
        """Make the function that Flask calls."""
        own_variables = re.findall(r"<(?:\w+:)?(\w+)>", self.path)

        def view(**variables: Any) -> Response:
            # The others belong to the blueprint's prefix, and to the methods, in request.view_args.
            own = {name: variables[name] for name in own_variables} if own_variables else {}
            request = this_request()
            try:
                response = self._answer(core, request, own)
            # The app's own callbacks run here too (a verify_password that calls sys.exit), hence BaseException.
            except BaseException as error:
                fault = ServerFault(new_id())
                log_unexpected(error, fault.error_id)
                response = self.spell_error(fault)
            if ORIGIN in request.environ:
                permit_origin(request, response)
            response.headers.add("X-Content-Type-Options", "nosniff")
            return response

        return view

    def _answer(self, core: Core, request: Request, variables: Mapping[str, Any]) -> Response:
        try:
            check_browser(request)
            serve = self.views.get(request.method) or self.views.get(ANY_VERB)
            if serve is None:
                response = self._without_view(request.method)
            else:
                response = serve(core, Caller() if self.open else core.admit(), **variables)
        except RpcError as error:
            response = self.spell_error(error)
        if response.status_code == 401:
            challenges = core.authenticator.challenges()
            response.headers.extend([("WWW-Authenticate", challenge) for challenge in challenges])
        return response

    def _without_view(self, verb: str) -> Response:
        allowed = sorted([*self.views, "OPTIONS"])
        if verb != "OPTIONS":
            raise VerbNotAllowed(allowed)
        response = no_content()
        response.headers["Allow"] = ", ".join(allowed)
        return response
