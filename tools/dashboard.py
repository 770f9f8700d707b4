"""Writes the Grafana dashboard, docs/grafana/bowstring.json: `python tools/dashboard.py`. With `--check` it only compares.

A dashboard is a long JSON that people cannot review. This table can be: rows of panels, each with a title, a unit and queries. A test
compares the file with the table, and every metric in a query with the metrics that the broker has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "grafana" / "bowstring.json"
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WHERE: Final = '{instance=~"$instance"}'
WIDTH: Final = 24
HEIGHT: Final = 8


class Panel(NamedTuple):
    """One picture: queries with the names of their lines. In a query `@` stands for the chosen instances."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    about: str = ""
    kind: str = "timeseries"


def _rate(metric: str) -> str:
    return f"sum(rate({metric}@[$__rate_interval]))"


def _percentiles(metric: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket@[$__rate_interval])))", name)
        for share, name in ((0.5, "median"), (0.95, "95 %"), (0.99, "99 %"))
    )


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Is it well?",
        (
            Panel("Ready", "bool", (("min(bowstring_ready@)", "ready"),), "What /readyz answers.", "stat"),
            Panel("Disk full", "bool_yes_no", (("max(bowstring_disk_full@)", "full"),), "1: publishes are refused with Full.", "stat"),
            Panel("Largest lag", "short", (("max(bowstring_position_lag_messages@)", "messages"),), "Of all positions.", "stat"),
            Panel("Damaged reads, 1 h", "short", (("sum(increase(bowstring_damaged_reads_total@[1h]))", "reads"),), kind="stat"),
        ),
    ),
    (
        "Rates",
        (
            Panel(
                "Messages",
                "cps",
                ((_rate("bowstring_published_messages_total"), "published"), (_rate("bowstring_fetched_messages_total"), "read")),
            ),
            Panel(
                "Bytes", "Bps", ((_rate("bowstring_published_bytes_total"), "published"), (_rate("bowstring_fetched_bytes_total"), "read"))
            ),
            Panel(
                "Refused, repeated",
                "cps",
                (
                    ("sum by (kind) (rate(bowstring_refused_batches_total@[$__rate_interval]))", "{{kind}}"),
                    (_rate("bowstring_duplicate_messages_total"), "duplicate messages"),
                    (_rate("bowstring_refused_streams_total"), "streams over the limit"),
                ),
                "Batches that were refused, by the kind of the error.",
            ),
        ),
    ),
    (
        "How long it takes",
        (
            Panel("Publish, in the broker", "s", _percentiles("bowstring_publish_seconds"), "The longest wait of a batch in each flush."),
            Panel("Sync of a segment", "s", _percentiles("bowstring_sync_seconds"), "What the disk takes for a large flush."),
            Panel("Commit in the catalog", "s", _percentiles("bowstring_commit_seconds")),
        ),
    ),
    (
        "Flushes",
        (
            Panel(
                "Flushes",
                "ops",
                ((_rate("bowstring_flushes_total"), "all"), (_rate("bowstring_inlined_flushes_total"), "inlined in the journal")),
            ),
            Panel("Flush", "s", _percentiles("bowstring_flush_seconds")),
            Panel(
                "Under way",
                "s",
                (("max(bowstring_flush_oldest_seconds@)", "oldest flush"),),
                "More than 10 s: the disk hangs, and the broker is not ready.",
            ),
        ),
    ),
    (
        "Topics and positions",
        (
            Panel(
                "Published by topic",
                "cps",
                (("topk(10, sum by (topic) (rate(bowstring_topic_published_messages_total@[$__rate_interval])))", "{{topic}}"),),
            ),
            Panel(
                "Read by topic",
                "cps",
                (("topk(10, sum by (topic) (rate(bowstring_topic_fetched_messages_total@[$__rate_interval])))", "{{topic}}"),),
            ),
            Panel("Size by topic", "bytes", (("topk(10, sum by (topic) (bowstring_topic_bytes@))", "{{topic}}"),)),
            Panel(
                "Lag by position",
                "short",
                (("topk(10, sum by (topic, position) (bowstring_position_lag_messages@))", "{{topic}} {{position}}"),),
                "Messages between a reader's position and the end.",
            ),
            Panel(
                "Position not moved for",
                "s",
                (("topk(10, time() - max by (topic, position) (bowstring_position_moved_timestamp_seconds@))", "{{topic}} {{position}}"),),
            ),
        ),
    ),
    (
        "Subscriptions",
        (
            Panel(
                "Backlog",
                "short",
                (("topk(10, sum by (topic, subscription) (bowstring_subscription_backlog_messages@))", "{{topic}} {{subscription}}"),),
                "Messages that are not settled.",
            ),
            Panel(
                "Acked",
                "cps",
                (
                    (
                        "topk(10, sum by (topic, subscription) (rate(bowstring_subscription_acked_messages_total@[$__rate_interval])))",
                        "{{topic}} {{subscription}}",
                    ),
                ),
            ),
            Panel(
                "Came back",
                "cps",
                (
                    ("sum(rate(bowstring_nacked_messages_total@[$__rate_interval]))", "nacked"),
                    ("sum(rate(bowstring_ended_leases_messages_total@[$__rate_interval]))", "lease ended"),
                ),
                "Messages that are delivered again.",
            ),
            Panel("Consumers", "short", (("sum(bowstring_consumers@)", "connected"),)),
        ),
    ),
    (
        "Disk",
        (
            Panel(
                "Space",
                "bytes",
                (
                    ("min(bowstring_disk_free_bytes@)", "free"),
                    ("sum(bowstring_segment_bytes@)", "segments"),
                    ("sum(bowstring_segment_used_bytes@)", "in use in segments"),
                    ("sum(bowstring_catalog_bytes@)", "catalog"),
                    ("sum(bowstring_orphan_bytes@)", "put aside"),
                ),
            ),
            Panel(
                "Journal",
                "short",
                (("max(bowstring_journal_rows@)", "rows"),),
                "It is sealed at seal.rows; beyond that something is wrong.",
            ),
            Panel(
                "Upkeep",
                "percentunit",
                (("sum by (work) (rate(bowstring_upkeep_seconds_total@[$__rate_interval]))", "{{work}}"),),
                "Share of the time that each kind of work takes.",
            ),
            Panel("Upkeep given up", "cps", (("sum by (work) (rate(bowstring_upkeep_troubles_total@[$__rate_interval]))", "{{work}}"),)),
            Panel("Expired messages", "cps", ((_rate("bowstring_expired_messages_total"), "by retention"),)),
            Panel(
                "Sealed, cleaned",
                "Bps",
                ((_rate("bowstring_sealed_bytes_total"), "sealed"), (_rate("bowstring_cleaned_bytes_total"), "copied by the cleaner")),
            ),
        ),
    ),
    (
        "Memory, process",
        (
            Panel("Process", "bytes", (("sum(process_resident_memory_bytes@)", "resident"),)),
            Panel(
                "Budgets",
                "percentunit",
                (("max by (part) (bowstring_memory_bytes@ / bowstring_memory_max_bytes@)", "{{part}}"),),
                "`publish` near 1: producers wait for the disk.",
            ),
            Panel("CPU", "percentunit", ((_rate("process_cpu_seconds_total"), "cores"),)),
            Panel(
                "Streams",
                "short",
                (("sum(bowstring_streams@)", "open"), ("sum(bowstring_producers@)", "producers"), ("sum(bowstring_streams_max@)", "limit")),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": _place(top, 0, WIDTH, 1)})
        top += 1
        for start in range(0, len(row), 4):
            line = row[start : start + 4]
            width = WIDTH // len(line)
            height = HEIGHT // 2 if all(panel.kind == "stat" for panel in line) else HEIGHT
            panels += [_panel(panel, _place(top, at * width, width, height)) for at, panel in enumerate(line)]
            top += height
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "__inputs": [],
        "__requires": [{"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.0.0"}],
        "annotations": {"list": []},
        "description": "One broker of Bowstring, or several.",
        "editable": True,
        "graphTooltip": 1,
        "links": [],
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": 38,
        "tags": ["bowstring"],
        "templating": {"list": [_datasource(), _instance()]},
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "title": "Bowstring",
        "uid": "bowstring",
        "version": 1,
    }


def _place(top: int, left: int, width: int, height: int) -> dict[str, int]:
    return {"h": height, "w": width, "x": left, "y": top}


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": query.replace("@", WHERE),
            "legendFormat": name,
            "range": True,
            "refId": chr(65 + at),
        }
        for at, (query, name) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "gridPos": place,
        "options": {},
        "targets": targets,
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0}


def _instance() -> dict[str, Any]:
    query = "label_values(bowstring_build_info, instance)"
    return {
        "name": "instance",
        "label": "Broker",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "instance"},
        "definition": query,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "hide": 0,
    }


def text() -> str:
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Writes the file, or with --check compares it; 1 if it differs."""
    if "--check" in sys.argv[1:]:
        if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text():
            return 0
        print(f"{TARGET.name} differs from the table; run 'python tools/dashboard.py'", file=sys.stderr)
        return 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
