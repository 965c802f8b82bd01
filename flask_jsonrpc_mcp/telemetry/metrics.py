"""`Prometheus`: the metrics of a blueprint, and ``GET /mcp/metrics``. Needs the extra ``prometheus``."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from flask import Request, Response

from .. import levels
from ..ask import InputNeeded
from ..auth import Caller
from ..call import Call
from ..checks import checked_permissions
from ..envelope import RpcRequest
from ..errors import NoSuchPath, RpcError, Unauthorized
from ..http.io import rest_error
from ..http.routes import Route
from ..mcp.protocol import RequestContext
from ..method import Method
from ..registry import Registry
from .conventions import DURATION_BUCKETS, OTHER, Operation, failure_from, failure_of, operation_of, resumed

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; install flask-jsonrpc-mcp[prometheus]", name=error.name) from error

__all__ = ["Prometheus"]

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable of prometheus_client with the folder where several processes share their metrics."""

_LABELS = {
    "mcp.method.name": "mcp_method_name",
    "gen_ai.tool.name": "gen_ai_tool_name",
    "gen_ai.prompt.name": "gen_ai_prompt_name",
    "mcp.protocol.version": "mcp_protocol_version",
    "network.transport": "network_transport",
    "error.type": "error_type",
}
"""The attributes of ``mcp.server.operation.duration``, and the labels that OpenTelemetry makes of them."""


class _Metrics:
    """The metrics in one registry of prometheus_client. All blueprints of the process share them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.operations = Histogram(
            "mcp_server_operation_duration_seconds",
            "Duration of MCP requests and notifications.",
            [*_LABELS.values()],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.calls = Counter(
            "mcp_calls", "Calls by tool, face and outcome.", ["tool", "face", "outcome"], registry=registry
        )
        self.durations = Histogram(
            "mcp_call_duration_seconds",
            "Duration of calls by tool and face.",
            ["tool", "face"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        # Finding the child of a metric by its labels takes longer than to count.
        self._operations: dict[tuple[str, ...], Histogram] = {}
        self._calls: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self.running = self._gauge("mcp_running_calls", "Methods that run now.", registry)
        for name, text, level in (
            ("mcp_streams", "Event streams that are being sent.", levels.streams),
            ("mcp_waiting_threads", "Threads that wait for a client or a task.", levels.waiting),
            ("mcp_overdue_methods", "Methods that still run after their timeout.", levels.overdue),
        ):
            level.watch(self._gauge(name, text, registry).set)

    def operation(self, *labels: str) -> Histogram:
        found = self._operations.get(labels)
        if found is None:
            found = self._operations[labels] = self.operations.labels(*labels)
        return found

    def call(self, tool: str, face: str, outcome: str) -> tuple[Counter, Histogram]:
        found = self._calls.get((tool, face, outcome))
        if found is None:
            counter, histogram = self.calls.labels(tool, face, outcome), self.durations.labels(tool, face)
            found = self._calls[tool, face, outcome] = counter, histogram
        return found

    @staticmethod
    def _gauge(name: str, text: str, registry: CollectorRegistry) -> Gauge:
        return Gauge(name, text, registry=registry, multiprocess_mode="livesum")


_metrics: WeakKeyDictionary[CollectorRegistry, _Metrics] = WeakKeyDictionary()


class Prometheus:
    """Measure a blueprint with prometheus_client, and serve all its metrics at ``GET /mcp/metrics``.

    ::

        rpc = McpBlueprint(auth=auth, telemetry=[Prometheus(access=["read metrics"])])

    :param access: The permissions that a caller needs to read the metrics, as for a method. They have the names of all
        tools, so an empty list, which lets everyone read them, is for servers that only Prometheus can reach.
    :param registry: The registry of prometheus_client; by default the global one.
    """

    def __init__(self, *, access: Iterable[str], registry: CollectorRegistry = REGISTRY) -> None:
        self._access = checked_permissions("access", access)
        self._collectors = registry
        if registry not in _metrics:
            _metrics[registry] = _Metrics(registry)
            if FOLDER in os.environ:
                # gunicorn's workers have child_exit for this; others, such as flask mcp worker, do not.
                atexit.register(lambda: mark_process_dead(os.getpid()))  # type: ignore[no-untyped-call]
        self._metrics = _metrics[registry]
        self.routes = (Route("/mcp/metrics", "metrics", {"GET": self._view}, rest_error),)

    def observe(self, registry: Registry) -> None:
        """Add this to a blueprint; ``McpBlueprint(telemetry=[...])`` calls it."""
        registry.around_requests.append(self._around_request)
        registry.around.insert(0, self._around_method)
        registry.call_observers.append(self._count)
        registry.metrics_access = self._access

    def _view(self, request: Request, registry: Registry, caller: Caller) -> Response:
        if not caller.has(self._access):
            raise Unauthorized() if caller.may_sign_in else NoSuchPath()
        collectors = self._collectors
        if FOLDER in os.environ:
            collectors = CollectorRegistry()
            MultiProcessCollector(collectors)  # type: ignore[no-untyped-call]
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        depths = CollectorRegistry()
        depths.register(_QueueDepths(registry))
        body = encode(_Joined(collectors, depths))
        return Response(body, content_type=content_type, headers={"Cache-Control": "no-store"})

    def _around_request(
        self, handle: Callable[..., Any], message: RpcRequest, context: RequestContext, *more: Any
    ) -> Any:
        started, operation = resumed(self, more) or (time.perf_counter(), operation_of(message, context))
        try:
            result = handle(message, context, *more)
        except InputNeeded as needed:
            needed.suspended[self] = started, operation
            raise
        except BaseException as error:
            self._measure(started, operation, None, failure_from(error))
            raise
        self._measure(started, operation, result, failure_of(result))
        return result

    def _measure(self, started: float, operation: Operation, result: Any, failure: dict[str, str] | None) -> None:
        facts = {**operation.labels, **operation.outcome(result, failure)}
        labels = [facts.get(attribute, "") for attribute in _LABELS]
        self._metrics.operation(*labels).observe(time.perf_counter() - started)

    def _around_method(self, call: Call) -> AbstractContextManager[None]:
        return self._metrics.running.track_inprogress()

    def _count(self, call: Call, method: Method | None, outcome: str, duration: float, error: RpcError | None) -> None:
        tool = OTHER if method is None else method.name
        counter, histogram = self._metrics.call(tool, call.face, outcome)
        counter.inc()
        histogram.observe(duration)


class _QueueDepths:
    """Reads how many tasks wait when Prometheus asks. The queues are shared, so one process knows for all."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[GaugeMetricFamily]:
        depths = GaugeMetricFamily("mcp_queue_depth", "Tasks that wait for a worker.", labels=["queue"])
        for name, depth in self._registry.queue_depths.items():
            with suppress(RpcError):  # its database cannot be reached, which is logged; all other metrics can
                depths.add_metric([name], depth())
        if depths.samples:
            yield depths


class _Joined:
    """Several registries, for an encoder."""

    def __init__(self, *registries: CollectorRegistry) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Any]:
        for registry in self._registries:
            yield from registry.collect()
