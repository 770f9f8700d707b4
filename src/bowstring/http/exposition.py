"""Renders a view as the text that Prometheus reads, by prometheus-client: a registry of our own,
and a collector that reads the view.

In addition to the table's metrics the text has those of the process (`process_…`: CPU, memory, open
files), as every exporter has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bowstring.http.metrics import Metric, View, metrics


class _ViewCollector(Collector):
    """Yields the metrics of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Any]:
        return (_family(metric, self._view) for metric in metrics())


def exposed(view: View, accept: str) -> tuple[bytes, str]:
    """The text, in the form that the scraper prefers, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ViewCollector(view))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _family(metric: Metric, view: View) -> Any:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.meaning)
        for distribution in metric.samples(view):
            buckets = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in distribution.buckets]
            histogram.add_metric([], buckets, distribution.seconds)
        return histogram
    family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in metric.samples(view):
        family.add_metric(labels, float(value))
    return family
