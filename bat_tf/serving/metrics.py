"""What a server counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one `Engine`, as `/metrics` shows them."""

    TYPE = CONTENT_TYPE_LATEST

    def __init__(self, engine):
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "bat_tf_requests",
            "Requests by what was asked and the status of the answer.",
            ["endpoint", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "bat_tf_request_seconds",
            "From a request's headers to the end of its answer.",
            ["endpoint"],
            buckets=SECONDS,
            registry=registry,
        )
        self.batch_rows = Histogram(
            "bat_tf_batch_rows",
            "Texts of a batch.",
            buckets=ROWS,
            registry=registry,
        )
        Gauge(
            "bat_tf_requests_held",
            "Requests that are being answered or wait for it.",
            registry=registry,
        ).set_function(lambda: engine.held)
        Gauge(
            "bat_tf_model_version",
            "The version that answers.",
            ["model"],
            registry=registry,
        ).labels(engine.name).set_function(lambda: engine.model.number)

    def page(self):
        """All of it in Prometheus' text format, as bytes."""
        return generate_latest(self._registry)
