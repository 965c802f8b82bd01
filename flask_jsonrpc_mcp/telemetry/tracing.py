"""`OpenTelemetry`: spans and durations of MCP requests, and of the methods that run. Needs the extra ``otel``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from ..ask import InputNeeded, Question
from ..auth import Caller
from ..call import METHOD, Call, Detach, trace_headers
from ..envelope import RpcRequest
from ..errors import RpcError
from ..http.routes import Route
from ..invoke import INPUT_REQUIRED, TASK
from ..mcp.protocol import RequestContext
from ..problems import MAX_QUOTED, one_line
from ..registry import Registry
from ..strict_json import write
from ..version import __version__
from .conventions import (
    DURATION_BUCKETS,
    EXECUTE_TOOL,
    Operation,
    details_of,
    failure_from,
    failure_of,
    operation_of,
    resumed,
)
from .redaction import has_secrets, hide_arguments, show_arguments

try:
    from opentelemetry import context as otel_context
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install flask-jsonrpc-mcp[otel]", name=error.name) from error

__all__ = ["OpenTelemetry"]

_SCOPE = "flask_jsonrpc_mcp"
_ERROR = Status(StatusCode.ERROR)


class _Begun(NamedTuple):
    """A request that is being answered."""

    operation: Operation
    span: Span
    context: Context
    started: float


class _Run:
    """The span around one run of a method.

    :param with_exceptions: Record the text and the traceback of an exception, which may contain arguments.
    """

    def __init__(self, span: Span, parent: Context, *, with_exceptions: bool) -> None:
        self._span = span
        self._context = trace.set_span_in_context(span, parent)
        self._with_exceptions = with_exceptions

    def __enter__(self) -> None:
        self._token = otel_context.attach(self._context)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, (InputNeeded, Detach)):
            outcome = INPUT_REQUIRED if isinstance(error, InputNeeded) else TASK
            self._span.set_attribute("jsonrpc_mcp.outcome", outcome)
        elif error is not None:
            self._span.set_attribute("error.type", error.slug if isinstance(error, RpcError) else _class_of(error))
            self._span.set_status(_ERROR)
            if self._with_exceptions:
                self._span.record_exception(error)
        self._span.end()
        otel_context.detach(self._token)


class OpenTelemetry:
    """Trace a blueprint with OpenTelemetry, as its semantic conventions for MCP demand.

    ::

        rpc = McpBlueprint(telemetry=[OpenTelemetry()])

    Each MCP request is a SERVER span, each run of a method an INTERNAL span, each question to a client from before
    2026-07-28 a CLIENT span. ``mcp.server.operation.duration`` is a histogram. The app chooses the SDK and its
    exporter; without one nothing is recorded.

    :param tracer_provider: By default the global one.
    :param meter_provider: By default the global one.
    :param record_caller: Record the caller's name as ``enduser.id``, and the address as ``client.address``.
    :param record_arguments: Record the arguments of tools, and the texts and tracebacks of exceptions, which may
        contain arguments. An argument marked with ``Secret`` is replaced, and exceptions of its tool are not recorded.
    :param record_results: Record the results of tools that MCP clients call.
    """

    routes: tuple[Route, ...] = ()

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        record_caller: bool = True,
        record_arguments: bool = False,
        record_results: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
        meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
        self._operations = meter.create_histogram(
            "mcp.server.operation.duration",
            "s",
            "MCP request or notification duration as observed on the receiver",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._sessions = meter.create_histogram(
            "mcp.server.session.duration",
            "s",
            "The duration of the MCP session as observed on the MCP server",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._record_caller = record_caller
        self._record_arguments = record_arguments
        self._record_results = record_results

    def observe(self, registry: Registry) -> None:
        """Add this to a blueprint; ``McpBlueprint(telemetry=[...])`` calls it."""
        registry.around_requests.append(self._around_request)
        registry.around_questions.append(self._around_questions)
        registry.around.insert(0, partial(self._around_method, registry))
        registry.session_observers.append(self._session_ended)
        registry.task_meta.append(_current_trace)

    def _around_request(
        self, handle: Callable[..., Any], message: RpcRequest, context: RequestContext, *more: Any
    ) -> Any:
        begun: _Begun = resumed(self, more) or self._begin(message, context)
        token = otel_context.attach(begun.context)
        try:
            result = handle(message, context, *more)
        except InputNeeded as needed:
            needed.suspended[self] = begun
            raise
        except BaseException as error:
            self._end(begun, None, failure_from(error))
            raise
        else:
            self._end(begun, result, failure_of(result))
            return result
        finally:
            otel_context.detach(token)

    def _begin(self, message: RpcRequest, context: RequestContext) -> _Begun:
        operation, ambient = operation_of(message, context), otel_context.get_current()
        params = message.params if isinstance(message.params, dict) else {}
        parent, links = _continued(params.get("_meta"), ambient), None
        if parent is not ambient:
            # The client's span is the parent; that of the HTTP request is linked.
            http = trace.get_current_span(ambient).get_span_context()
            is_other = trace.get_current_span(parent).get_span_context() != http
            links = [Link(http)] if http.is_valid and is_other else None
        span = self._tracer.start_span(operation.name, parent, SpanKind.SERVER, operation.labels, links)
        if span.is_recording():
            span.set_attributes(details_of(message, context, operation) | self._facts_of(context.caller))
            if self._record_arguments and message.method == "tools/call":
                method = context.registry.methods.get(context.tool_name(str(params.get("name"))))
                span.set_attributes(_arguments(params.get("arguments", {}), method))
        return _Begun(operation, span, trace.set_span_in_context(span, parent), time.perf_counter())

    def _end(self, begun: _Begun, result: Any, failure: dict[str, str] | None) -> None:
        span, labels = begun.span, begun.operation.labels
        outcome = begun.operation.outcome(result, failure)
        if outcome:
            span.set_attributes(outcome)
            labels = {**labels, **outcome}
        if failure is not None:
            span.set_status(_ERROR)  # without the text of the error, which may have been made of arguments
        elif self._record_results and isinstance(result, dict) and "content" in result:
            value = result.get("structuredContent", result["content"])
            span.set_attribute("gen_ai.tool.call.result", write(value).decode())
        span.end()
        self._operations.record(time.perf_counter() - begun.started, labels, begun.context)

    def _around_method(self, registry: Registry, call: Call) -> _Run:
        method = registry.finders[call.kind].find(call.name, call.caller, listed_only=call.listed_only)
        is_tool = call.kind == METHOD
        # Without a span around it, as in a task worker, the method belongs to the request that called it.
        ambient = otel_context.get_current()
        has_span = trace.get_current_span(ambient).get_span_context().is_valid
        parent = ambient if has_span else _continued(call.meta, ambient)
        tool = {"gen_ai.operation.name": EXECUTE_TOOL, "gen_ai.tool.name": method.name} if is_tool else None
        span = self._tracer.start_span(
            f"{EXECUTE_TOOL if is_tool else call.kind} {method.name}", parent, attributes=tool
        )
        if span.is_recording():
            span.set_attributes(
                {
                    "code.function.name": _function_name(method.func),
                    "jsonrpc_mcp.call.id": call.id,
                    "jsonrpc_mcp.face": call.face,
                    **self._facts_of(call.caller),
                    **(_arguments(call.arguments, method) if is_tool and self._record_arguments else {}),
                }
            )
        if not has_span:
            # The span is over when observers, such as the audit trail, are called.
            own = span.get_span_context()
            if own.is_valid:
                call.notes["trace_id"] = f"{own.trace_id:032x}"
        # The text of an exception may quote any argument.
        with_exceptions = self._record_arguments and not has_secrets(method.params.schema)
        return _Run(span, parent, with_exceptions=with_exceptions)

    def _around_questions(
        self, ask: Callable[[Mapping[str, Question]], Mapping[str, Any]], questions: Mapping[str, Question]
    ) -> Mapping[str, Any]:
        with ExitStack() as ending:
            spans: dict[str, Span] = {}
            for key, question in questions.items():
                attributes = {"mcp.method.name": question.method}
                span = self._tracer.start_span(question.method, kind=SpanKind.CLIENT, attributes=attributes)
                ending.callback(span.end)
                spans[key] = span
            responses = ask(questions)
            for key, response in responses.items():
                if isinstance(response, RpcError):
                    spans[key].set_attributes(failure_from(response))
                    spans[key].set_status(_ERROR)
            return responses

    def _session_ended(self, version: str, seconds: float) -> None:
        self._sessions.record(seconds, {"mcp.protocol.version": version, "network.transport": "pipe"})

    def _facts_of(self, caller: Caller) -> dict[str, str]:
        facts: dict[str, str] = {}
        if self._record_caller and caller.name:
            facts["enduser.id"] = one_line(caller.name, MAX_QUOTED)
        if self._record_caller and caller.address:
            facts["client.address"] = caller.address
        return facts


def _continued(meta: Any, ambient: Context) -> Context:
    """Return the context of a client's span, from ``traceparent``, ``tracestate`` and ``baggage`` in its ``_meta``."""
    if not isinstance(meta, dict):
        return ambient
    carrier = trace_headers(meta)
    return propagate.extract(carrier, ambient) if carrier else ambient


def _current_trace() -> dict[str, str]:
    """Return what continues the current span in another process, such as in a task worker."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    carrier.pop("baggage", None)  # of the client, which may be private
    return carrier


def _arguments(arguments: Any, method: Any) -> dict[str, str]:
    # The name of a tool may be misspelt, and then nothing says which arguments are secrets.
    shown = hide_arguments(arguments, {}) if method is None else show_arguments(arguments, method.params.schema)
    return {"gen_ai.tool.call.arguments": write(shown).decode()}


def _function_name(func: Callable[..., Any]) -> str:
    return f"{getattr(func, '__module__', '')}.{getattr(func, '__qualname__', type(func).__qualname__)}"


def _class_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
