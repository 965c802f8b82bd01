"""`add_openapi` and `add_view` of `McpBlueprint`: make tools of endpoints that the app already has.

A document from a function, and the URL map, are read before the first request, when the app has all its routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flask import current_app

from .checks import check_options, checked_name
from .decorators import Decorators
from .method import EndpointOptions, ToolOptions
from .registry import Registry

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .openapi.operations import Include
    from .openapi.tools import Document, Hints, Naming, OperationTool


class EndpointTools(Decorators):
    """Registers endpoints as tools, besides functions."""

    _registry: Registry

    def add_openapi(
        self,
        spec: Document,
        *,
        include: Include,
        name: Naming = None,
        annotations: Hints = None,
        **options: Unpack[EndpointOptions],
    ) -> None:
        """Make tools of operations of an API that the app already has.

        ::

            rpc.add_openapi(lambda: api.spec.to_dict(), include=["tag:books", "GET /shelves/*"])

        A call is a request to the app's own endpoint, in this process, with the headers of the caller. So the
        endpoint's sign-in, validation and errors work as they do for any other request.

        :param spec: The OpenAPI 3 or Swagger 2 document: a dict, or a function that returns it, which is called
            before the first request to this blueprint, when the app has all its routes.
        :param include: The operations to make tools of: patterns of operation ids, of tags (``"tag:books"``) and of
            methods with paths (``"GET /books/*"``), or a function that gets an :class:`.Operation` and returns a bool.
        :param name: Put before the operation ids, with a dot; or a function that returns the name of an operation.
        :param annotations: Hints for all operations, or a function that returns those of one. By default GET is
            read-only, PUT and DELETE are destructive and idempotent.
        :param options: ``access``, ``scopes``, ``timeout`` and ``rate_limit`` of :meth:`tool`.
        :raises TypeError, ValueError: naming the operation and the fix; with a function, before the first request.
        """
        from .openapi.tools import tools_from_document

        _refuse_options("add_openapi", options)
        check_options("tool from OpenAPI", options, EndpointOptions)
        if not callable(spec):
            self._add_tools(tools_from_document(spec, include, name, annotations), options)
            return
        read = spec
        self._registry.pending.append(
            lambda: self._add_tools(tools_from_document(read(), include, name, annotations), options)
        )

    def add_view(
        self,
        name: str,
        endpoint: str,
        *,
        method: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Make a tool of one endpoint of the app, without a document.

        ::

            rpc.add_view("books.get", "api.get_book")

        :param endpoint: The endpoint, as for ``url_for``. It is looked up before the first request to this blueprint,
            when the app has all its routes, and by ``flask mcp doctor``.
        :param method: The HTTP method, if the endpoint has several.
        :param options: The options of :meth:`tool` except ``task`` and ``max_age``. Here ``params`` is the schema of
            the query string, or of the JSON body of POST, PUT and PATCH. The variables of the path are described by
            the hints of the view, or by their converters.
        :raises TypeError, ValueError: for options that are wrong for any endpoint, naming the tool and the fix. A name
            that no endpoint has, and an HTTP method that it does not take, raise when it is looked up.
        """
        from .openapi.operations import METHODS
        from .openapi.tools import read_params, tool_from_view

        _refuse_options(f"add_view {name!r}", options)
        check_options("tool", options, ToolOptions)
        if not isinstance(endpoint, str):
            raise TypeError(f"{name}: give the name of an endpoint, as for url_for, not {endpoint!r}")
        if method is not None and method.lower() not in METHODS:
            raise ValueError(f"{name}: method must be one of {', '.join(METHODS).upper()}, not {method!r}")
        params = read_params(checked_name(None, name), options.get("params"))

        def load() -> None:
            app = current_app._get_current_object()  # type: ignore[attr-defined]
            made = tool_from_view(app, name, endpoint, method=method, params=params)
            self._add_tools([made], {key: value for key, value in options.items() if key != "params"})

        self._registry.pending.append(load)

    def _add_tools(self, tools: Iterable[OperationTool], options: Mapping[str, Any]) -> None:
        """Register tools, all of them or none."""
        added = []
        try:
            for tool in tools:
                self.add_tool(tool.func, tool.name, **{**tool.options, **options})
                added.append(tool.name)
        except BaseException:
            for each in added:
                self._registry.methods.remove(each)
            raise


def _refuse_options(role: str, options: Mapping[str, Any]) -> None:
    if options.get("max_age") is not None:
        raise ValueError(
            f"{role}: max_age= is not possible, because the endpoint may sign callers in whom the blueprint does not"
            " know, and a cache would show the response of one to another"
        )
    if options.get("task"):
        raise ValueError(
            f"{role}: task= is not possible, because the endpoint needs the credentials of the caller, which a worker"
            " does not have; write a function with @rpc.tool(task=...) that does the work"
        )
