"""Counters of the service, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from verigym.envs.contract.schema import Score

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The Prometheus metrics of one service. All labels have few values, such as routes, environments and statuses."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._requests = Counter(
            "verigym_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self._request_s = Histogram(
            "verigym_request_seconds", "Time to the end of an answer.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self._items = Counter("verigym_items", "Items answered.", ("environment", "status"), registry=self.registry)
        self._grading_s = Histogram(
            "verigym_grading_seconds", "Time that judging took.", ("environment",), buckets=_SECONDS, registry=self.registry
        )
        self._item_s = Histogram(
            "verigym_item_seconds",
            "Time from submission to verdict, with waiting.",
            ("environment",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._refused = Counter("verigym_refused", "Requests refused, by reason.", ("reason",), registry=self.registry)
        self._turns = Counter("verigym_turns", "Turns of episodes answered.", ("environment",), registry=self.registry)
        self._ended = Counter("verigym_episodes_ended", "Episodes, by how they ended.", ("how",), registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        known = method if method in ("GET", "POST", "DELETE", "HEAD") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._request_s.labels(route).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a request, or a connection, that was refused."""
        self._refused.labels(reason).inc()

    def item(self, environment: str, status: str) -> None:
        """Count an answered item."""
        self._items.labels(environment, status).inc()

    def graded(self, environment: str, score: Score, seconds: float) -> None:
        """Count a verdict and the time since its item was submitted."""
        self.item(environment, score.status.value)
        self._grading_s.labels(environment).observe(score.seconds)
        self._item_s.labels(environment).observe(seconds)

    def turn(self, environment: str) -> None:
        """Count an answered turn."""
        self._turns.labels(environment).inc()

    def episode_ended(self, how: str) -> None:
        """Count an episode that is over."""
        self._ended.labels(how).inc()

    def watch(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Add a gauge `name` with the description `what`, which calls `value` each time it is read."""
        Gauge(name, what, registry=self.registry).set_function(value)

    def watch_counters(self, counters: Callable[[], Mapping[str, float]]) -> None:
        """Add counters that are kept elsewhere; `counters` returns their values by name."""
        self.registry.register(_Elsewhere(counters))

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _Elsewhere(Collector):
    def __init__(self, counters: Callable[[], Mapping[str, float]]) -> None:
        self._counters = counters

    def collect(self) -> Iterable[Metric]:
        for name, value in self._counters().items():
            family = CounterMetricFamily(f"verigym_{name}", name.replace("_", " "))
            family.add_metric((), value)
            yield family
