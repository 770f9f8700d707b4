"""The bars of the log in use and the results, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.table import Row, beside, least, most, times
from benchmarks.turns import Runs, median

Found = dict[str, Any]

KEYED = {"default": 2.0, "fsync": 2.5}
RSTREAM = 2.0
FILES = 5.0
MEDIAN_MS, LATE_MS, AT_SYNC_MS = 1.5, 5.0, 0.5
"""The median of deliveries where a sync takes no longer than this; where it does, the bar is not
judged.
"""
CROWD = {"nats": 2.0, "redis": 0.5}
CROWD_MICROSECONDS = {"client": 90, "server": 110}
SHARED = 0.8
"""gRPC through the shared port, of gRPC at an address of its own."""
IDLE_MB = 40
SECONDS = {"import": 0.02, "help": 0.3, "list": 0.18, "ephemeral": 0.22}
SPARK_SHARES = {"batch": 0.48, "stream": 0.40}


def rows(found: dict[str, Found]) -> list[Row]:
    """The lines of the measurements."""
    return [row for name, figures in found.items() for row in _ROWS[name](figures)]


def _rates(title: str, runs: Runs, peer: str, bar: float | None) -> Row:
    ours = median(runs, "bowstring", "messages_per_second") or 0.0
    return beside(title, ours, median(runs, peer, "messages_per_second"), bar)


def _keyed(found: Found) -> list[Row]:
    titles = {"default": "send(), key and attributes, beside Kafka", "fsync": "send(), key and attributes, Kafka synced"}
    made: list[Row] = []
    for durability, runs in found.items():
        made.append(_rates(titles[durability], runs, "kafka", KEYED[durability]))
        made += [_cpu(runs, side) for side in ("client", "server")]
    return made


def _cpu(runs: Runs, side: str) -> Row:
    ours, theirs = (median(runs, who, f"{side}_cpu_per_million") for who in ("bowstring", "kafka"))
    title = f"  CPU s/million, {'kit' if side == 'client' else 'broker'}"
    return Row(title, f"{ours or 0:.3f}", f"{theirs:.3f}" if theirs else "", times(ours or 0, theirs))


def _rstream(found: Found) -> list[Row]:
    return [_rates("for message in reader, beside rstream", found, "rstream", RSTREAM)]


def _files(found: Found) -> list[Row]:
    titles = {"out_seconds": "read -o arrow > file, beside Kafka", "in_seconds": "produce --input parquet, beside Kafka"}
    made: list[Row] = []
    for figure, title in titles.items():
        ours, theirs = (median(found["runs"], who, figure) for who in ("bowstring", "kafka"))
        made.append(beside(title, found["rows"] / (ours or 1), found["rows"] / theirs if theirs else None, FILES))
    return made


def _delivery(found: Found) -> list[Row]:
    (ours, late), (theirs, later) = (
        [median(found["runs"], who, figure) or 0.0 for figure in ("median_ms", "p99_ms")] for who in ("bowstring", "kafka")
    )
    reached = MEDIAN_MS / ours if found["sync_ms"] <= AT_SYNC_MS else None
    return [
        Row("delivery at 1,000/s, median, Kafka synced", _ms(ours), _ms(theirs), times(ours, theirs), f"≤ {MEDIAN_MS:g} ms", reached),
        Row("  99 %", _ms(late), _ms(later), times(late, later), f"≤ {LATE_MS:g} ms", LATE_MS / late if reached is not None else None),
        Row(f"  a sync, bare; the bar is for ≤ {AT_SYNC_MS:g} ms", _ms(found["sync_ms"])),
    ]


def _ms(value: float) -> str:
    return f"{value:.2f} ms" if value else ""


def _crowd(found: Found) -> list[Row]:
    titles = {"nats": "64 clients, one by one, NATS synced", "redis": "64 clients, one by one, Redis synced"}
    made = [_rates(titles[peer], found, peer, bar) for peer, bar in CROWD.items()]
    for side, bar in CROWD_MICROSECONDS.items():
        spent = median(found, "bowstring", f"{side}_cpu_per_million") or 0.0
        made.append(most(f"  CPU a message, {'kit' if side == 'client' else 'broker'}", spent, bar, "µs", digits=0))
    told = {who: [median(found, who, figure) for figure in ("median_ms", "p99_ms")] for who in found}
    return [*made, *(Row(f"  {who}, median / 99 %", f"{middle:.1f} / {late:.1f} ms") for who, (middle, late) in told.items())]


def _startup(found: Found) -> list[Row]:
    titles = {"import": "import bowstring", "help": "bowstring --help", "list": "bowstring topic list"}
    titles["ephemeral"] = "first ephemeral broker"
    made = [most(titles[name], (median(found, name, "seconds") or 0) * 1e3, bar * 1e3, "ms", digits=0) for name, bar in SECONDS.items()]
    return [*made, Row("  Python alone", f"{(median(found, 'python', 'seconds') or 0) * 1e3:.0f} ms")]


def _spark(found: Found) -> list[Row]:
    rates, native = found["rates"], found["rates"]["parquet"]
    titles = {"batch": "Spark reads a topic / the rows as Parquet (P)", "stream": "Spark streams it, AvailableNow, whole query / P"}
    made = [least(titles[name], rates[name] / native, bar) for name, bar in SPARK_SHARES.items()]
    if not found.get("quiet", True):
        made = [row._replace(reached=None) for row in made]
        made.append(Row("  others used the machine: not judged", ""))
    told = ", ".join(f"{name} {rate:.2f}" for name, rate in rates.items())
    return [*made, Row("  million rows/s", told), Row("  broker CPU s/million", f"{found['broker_cpu']['batch']:.2f}")]


def _wire(found: Found) -> list[Row]:
    titles = {
        "publish-list": "native beside gRPC: publish, lists, 100 B",
        "read-arrow": "native beside gRPC: read as Arrow, 100 B",
        "read-messages": "native beside gRPC: read as messages, 100 B",
        "many-clients": "native beside gRPC: 64 clients, one by one",
        "one-by-one": "native beside gRPC: 1 client, one by one",
    }
    made: list[Row] = []
    for name, title in titles.items():
        native, grpc, shared = (median(found[name], way, "messages_per_second") or 0.0 for way in ("native", "grpc", "shared"))
        made.append(beside(title, native, grpc))
        made += [_ways_cpu(found[name], side) for side in ("client", "server")]
        made.append(beside("  gRPC through the shared port, beside its own", shared, grpc, SHARED))
    return [*made, most("1,000 idle connections", found["idle_bytes"] / 1e6, IDLE_MB, "MB", digits=1)]


def _ways_cpu(runs: Runs, side: str) -> Row:
    native, grpc = (median(runs, way, f"{side}_cpu_per_million") or 0.0 for way in ("native", "grpc"))
    return Row(f"  CPU s/million, {'kit' if side == 'client' else 'broker'}", f"{native:.3f}", f"{grpc:.3f}", times(native, grpc))


_ROWS: dict[str, Callable[[Found], list[Row]]] = {
    "keyed": _keyed,
    "rstream": _rstream,
    "files": _files,
    "delivery": _delivery,
    "crowd": _crowd,
    "startup": _startup,
    "spark": _spark,
    "wire": _wire,
}
