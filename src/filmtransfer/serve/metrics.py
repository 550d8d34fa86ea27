"""What the service counts, for Prometheus. No label ever holds a name, a token or an id."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """A registry of its own, so that two services in one process count apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fit_requests", "Requests.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "fit_request_seconds",
            "Time until the answer began.",
            ("method", "route"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batch = Histogram(
            "fit_batch_images", "Images in one backbone pass.", buckets=SIZES, registry=self.registry
        )
        self.queue = Gauge("fit_queue_images", "Images that wait for a pass.", registry=self.registry)
        self.hits = Gauge("fit_cache_hits", "Updates found in memory.", registry=self.registry)
        self.misses = Gauge("fit_cache_misses", "Updates read from the store.", registry=self.registry)
        self.held = Gauge("fit_cache_bytes", "Memory that cached updates take.", registry=self.registry)
        self.waiting = Gauge(
            "fit_trainings_waiting", "Trainings that wait for a worker.", registry=self.registry
        )
        self.streams = Gauge("fit_event_streams", "Open event streams.", registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
