"""The Grafana dashboard asks for metrics that there are, and every metric is explained."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import dashboard
import reference
from bowstring.http.metrics import Metric, metrics

METRICS = {metric.name: metric for metric in metrics()}
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
BOARD: dict[str, Any] = json.loads(dashboard.TARGET.read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]


def _names(query: str) -> set[str]:
    return set(re.findall(r"\b(?:bowstring|process)_[a-z_]+", query))


def _metric(name: str) -> Metric:
    """The metric of a name in a query: histograms are asked for by their buckets."""
    return METRICS[re.sub(r"_(bucket|sum|count)$", "", name) if name not in METRICS else name]


def test_the_dashboard_is_what_its_table_gives():
    assert dashboard.TARGET.read_text(encoding="utf-8") == dashboard.text(), "run: python tools/dashboard.py"


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_metrics_that_there_are(query: str):
    names = _names(query)
    assert names
    for name in names - PROCESS:
        metric = _metric(name)
        assert (metric.kind == "histogram") == name.endswith("_bucket")
        assert metric.kind == "gauge" or re.search(rf"(rate|increase)\({name}\{{", query), "what only rises is shown as a rate"
        assert metric.kind != "gauge" or not re.search(rf"(rate|increase)\({name}\{{", query)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_groups_by_labels_that_its_metrics_have(query: str):
    for labels in re.findall(r"by \(([a-z, ]+)\)", query):
        for name in _names(query):
            found = {"le"} if name.endswith("_bucket") else set(_metric(name).labels)
            assert set(labels.split(", ")) <= found


def test_what_an_operator_has_to_see_is_on_the_dashboard():
    shown = {name for query in QUERIES for name in _names(query)}
    for name in (
        "bowstring_ready",
        "bowstring_disk_full",
        "bowstring_disk_free_bytes",
        "bowstring_position_lag_messages",
        "bowstring_subscription_backlog_messages",
        "bowstring_refused_batches_total",
        "bowstring_publish_seconds_bucket",
        "bowstring_sync_seconds_bucket",
        "bowstring_memory_bytes",
        "bowstring_damaged_reads_total",
        "bowstring_upkeep_troubles_total",
    ):
        assert name in shown


def test_the_dashboard_can_be_imported():
    assert BOARD["schemaVersion"] >= 36
    assert (BOARD["uid"], BOARD["title"]) == ("bowstring", "Bowstring")
    assert {variable["name"] for variable in BOARD["templating"]["list"]} == {"datasource", "instance"}
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, "panels do not overlap"
        assert max(x for x, _ in cells) < 24
        taken |= cells
        for target in panel.get("targets", []):
            assert target["expr"].count("(") == target["expr"].count(")")
            assert 'instance=~"$instance"' in target["expr"]


def test_every_metric_is_explained_in_the_reference():
    page = reference.metrics_text()
    for metric in metrics():
        assert f"| `{metric.name}` | {metric.kind} |" in page
        assert metric.meaning.endswith(".")
