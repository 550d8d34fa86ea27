"""The metrics of the service, for Prometheus. No label contains a name, a token or an id."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one application, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        route = ("method", "route")
        self.requests = Counter("fit_requests", "Requests.", (*route, "status"), registry=registry)
        self.seconds = Histogram(
            "fit_request_seconds",
            "Time until the response started.",
            route,
            buckets=SECONDS,
            registry=registry,
        )
        self.batch = Histogram(
            "fit_batch_images", "Images in one pass of the backbone.", buckets=BATCH_SIZES, registry=registry
        )
        self.queue = Gauge("fit_queue_images", "Images that wait for a pass.", registry=registry)
        self.uploads = Gauge("fit_requests_waiting", "Requests that wait for a turn.", registry=registry)
        self.cache_hits = Gauge("fit_cache_hits", "Classifiers found in memory.", registry=registry)
        self.cache_misses = Gauge("fit_cache_misses", "Classifiers read from the store.", registry=registry)
        self.cache_bytes = Gauge("fit_cache_bytes", "Memory of the cached classifiers.", registry=registry)
        self.downloads = Counter(
            "fit_downloads", "Files made for download.", ("kind", "result"), registry=registry
        )
        self.waiting = Gauge("fit_trainings_waiting", "Trainings that wait for a worker.", registry=registry)
        self.event_streams = Gauge("fit_event_streams", "Open event streams.", registry=registry)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
