"""The decorators that register functions: of `McpBlueprint`, and of `ToolGroup` for tools in a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from .checks import check_options, checked_name, checked_permissions, naming
from .method import CommonOptions, MarkOptions, McpTool, Method, MethodOptions, ToolOptions, make_mark
from .prompts import Completer, Prompt, PromptOptions
from .resources import Resource, ResourceOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

F = TypeVar("F", bound=Callable[..., Any])


class Declared(NamedTuple):
    """A function, and what it was declared as.

    :param name: Its name or URI; that of the prompt or resource template for a completer.
    :param mark: Makes a method a tool.
    :param argument: What a completer completes.
    """

    kind: type[Method]
    name: str | None
    func: Callable[..., Any]
    options: Mapping[str, Any]
    mark: McpTool | None = None
    argument: str = ""


class Decorators:
    """Registers functions as tools, methods, prompts, resources and completers. Each decorator returns its function."""

    @overload
    def tool(self, name: F, /) -> F: ...

    @overload
    def tool(self, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, name: Any = None, **options: Any) -> Any:
        """Register a function as an MCP tool, which is a JSON-RPC method and a REST endpoint too.

        ::

            @rpc.tool("articles.delete", destructive=True, access=["delete content"], confirm="Delete article {id}?")
            def delete_article(id: int) -> bool: ...

        :param name: Its name for callers; by default the function's name.
        :param options: The options of :meth:`method` and of :func:`.mcp_tool`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_tool(name, **options)
        return lambda func: self.add_tool(func, name, **options)

    def add_tool(self, func: F, name: str | None = None, **options: Unpack[ToolOptions]) -> F:
        """Register a function or a bound method as a tool without a decorator. See :meth:`tool`."""
        with naming(func):
            check_options("tool", options, ToolOptions)
        marked = {option: value for option, value in options.items() if option in MarkOptions.__annotations__}
        others = {option: value for option, value in options.items() if option not in marked}
        self._register(Declared(Method, name, func, others, make_mark(func, marked)))
        return func

    @overload
    def method(self, name: F, /) -> F: ...

    @overload
    def method(self, name: str | None = None, **options: Unpack[MethodOptions]) -> Callable[[F], F]: ...

    def method(self, name: Any = None, **options: Any) -> Any:
        """Register a function as a method, and return it unchanged.

        :param name: Its name for callers; by default the function's name.
        :param description: What it does, for people and models; by default the docstring.
        :param params: The schema of its arguments: a JSON Schema dict or a marshmallow schema (class, instance or dict
            of fields); by default its type hints. A marshmallow schema loads the arguments.
        :param output: The schema of its result, in the same forms; by default the return hint. A marshmallow schema
            dumps it.
        :param validate_output: Whether results are validated against the output schema. ``False`` saves time for large
            results; the schema is still published.
        :param access: The permissions that a caller needs, all of them; by default none.
        :param scopes: The OAuth scopes that an access token needs, all of them; by default none. They do not apply to
            callers who sign in otherwise. Needs an :class:`.OAuthResource` in the blueprint's ``auth``.
        :param max_age: For how many seconds caches may store its responses to GET; by default not at all.
        :param timeout: After how many seconds the caller gets an error if the method has not returned. The method runs
            in a second thread then, and sees ``current_call.cancelled``. Teardown functions do not wait for it;
            those of the app context run once more when it ends.
        :param rate_limit: A limit for its calls by one caller, such as ``"5/minute"``.
        :param streams: Run it while its response is being sent, so that progress and log messages reach an MCP client
            that asked for them at once. A generator function always does.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_method(None, name, **options)
        return lambda func: self.add_method(name, func, **options)

    def add_method(self, name: str | None, func: F, **options: Unpack[MethodOptions]) -> F:
        """Register a function as a method without a decorator. See :meth:`method`."""
        self._register(Declared(Method, name, func, options))
        return func

    @overload
    def prompt(self, name: F, /) -> F: ...

    @overload
    def prompt(self, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(self, name: Any = None, **options: Any) -> Any:
        """Register a function as a prompt, and return it unchanged.

        The function returns a string, a content block, a :class:`PromptMessage`, or a list of these. Clients send
        arguments as strings; they are converted to the types of the hints.

        :param name: Its name for clients; by default the function's name.
        :param title: A name for people to read.
        :param description: What it is for; by default the docstring.
        :param params: The schema of its arguments, as for :meth:`method`.
        :param options: ``access``, ``scopes``, ``timeout`` and ``rate_limit`` are those of :meth:`method`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if callable(name):
            return self.add_prompt(None, name, **options)
        return lambda func: self.add_prompt(name, func, **options)

    def add_prompt(self, name: str | None, func: F, **options: Unpack[PromptOptions]) -> F:
        """Register a function as a prompt without a decorator. See :meth:`prompt`."""
        self._register(Declared(Prompt, name, func, options))
        return func

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Register a function as a resource, and return it unchanged.

        The function returns a string, bytes, or any other value, which becomes JSON; ``None`` if there is nothing at
        this URI; a list of :class:`EmbeddedResource` for several contents.

        :param uri: Its URI, or a template such as ``"articles://{id}"``, whose variables are the function's parameters.
            ``{name}`` matches a part without a slash, ``{+path}`` may contain slashes. Both are percent-decoded, so
            ``%2F`` becomes a slash.
        :param name: Its name in lists; by default the function's name.
        :param title: A name for people to read.
        :param description: What it is; by default the docstring.
        :param mime_type: The MIME type of its contents; by default plain text, octet-stream or JSON.
        :param annotations: MCP's ``audience``, ``priority`` and ``lastModified``.
        :param max_age: For how many seconds clients may cache its contents.
        :param options: ``access``, ``scopes``, ``timeout`` and ``rate_limit`` are those of :meth:`method`.
        :raises TypeError, ValueError: naming the function and the fix.
        """
        if not isinstance(uri, str):
            raise TypeError("@rpc.resource needs a URI; write @rpc.resource('articles://{id}')")
        return lambda func: self.add_resource(uri, func, **options)

    def add_resource(self, uri: str, func: F, **options: Unpack[ResourceOptions]) -> F:
        """Register a function as a resource without a decorator. See :meth:`resource`."""
        self._register(Declared(Resource, uri, func, options))
        return func

    def completer(self, completed: str, argument: str, **options: Unpack[CommonOptions]) -> Callable[[F], F]:
        """Register a function that suggests values for an argument, and return it unchanged.

        The function gets the value typed so far, and the other arguments that it has parameters for, which need
        defaults. It returns a list of strings, the best first. An argument with an ``enum`` needs no completer.

        :param completed: The name of a prompt or the template of a resource, registered before.
        :param argument: The name of its argument.
        :raises TypeError, ValueError: naming the function and the fix.
        """

        def add(func: F) -> F:
            self._register(Declared(Completer, completed, func, options, argument=argument))
            return func

        return add

    def _register(self, declared: Declared) -> None:
        raise NotImplementedError


class ToolGroup(Decorators):
    """Tools, methods, prompts and resources in a module of their own, which needs no blueprint.

    ::

        articles = ToolGroup("articles")

        @articles.tool
        def create(title: str) -> dict: ...

        rpc.add_group(articles, access=["edit content"])  # registers the tool articles.create

    It can be added to several blueprints.

    :param name: Put before the names of its tools, methods and prompts, with a dot. URIs stay as they are.
    """

    def __init__(self, name: str) -> None:
        self.name = checked_name(None, name)
        self._declared: list[Declared] = []

    def register_on(self, target: Decorators, access: Iterable[str] = ()) -> None:
        """Register everything on a blueprint. :meth:`.McpBlueprint.add_group` calls this."""
        needed = checked_permissions("access", access)
        names: dict[str | None, str] = {}
        # Completers last, because what they complete must be registered before.
        for declared in sorted(self._declared, key=lambda declared: declared.kind is Completer):
            name = declared.name
            with naming(declared.func):
                own_access = checked_permissions("access", declared.options.get("access", ()))
                if declared.kind is Completer:
                    name = names.get(name, name)
                elif declared.kind is not Resource:
                    own_name = checked_name(declared.func, name)
                    name = names[own_name] = f"{self.name}.{own_name}"
            options = {**declared.options, "access": needed | own_access}
            target._register(declared._replace(name=name, options=options))

    def _register(self, declared: Declared) -> None:
        self._declared.append(declared)
