"""The bars and the results, row by row.

A bar is "at least" (how many times Kafka, which share of the machine's limit) or "at most" (CPU
beside Kafka's, bytes, memory). Kafka's figure is that of its faster variant, but for the speed of
reading: that bar names `consume()`, so plain `consume` judges it, and the tuned variant has a row
of its own. A row whose bar cannot be judged, because something was not measured, has neither mark.

At 1 KiB publishing is held against the lesser of synced disk and loopback. Reading does not touch
the disk (the kernel has the files in memory, Kafka's as well as ours), so it is held against
loopback alone.
"""

from __future__ import annotations

from benchmarks.product import bars as product
from benchmarks.queue import bars as queue
from benchmarks.rounds import Results
from benchmarks.table import Row, beside, times
from benchmarks.years import bars as years

TIMES_KAFKA = {"publish-list": 3.0, "publish-arrow": 3.5, "publish-send": 1.2, "read-arrow": 8.0, "read-messages": 1.5}
TIMES_TUNED = {("read-arrow", 100): 7.0, ("read-messages", 100): 2.5, ("read-arrow", 1024): 1.0, ("read-messages", 1024): 0.9}
"""Of Kafka's tuned `consume()`."""
NAMED = "consume"
"""The variant of Kafka's that the bars for the speed of reading name."""
CPU_SHARES = {"client": 0.7, "server": 0.6}
LIMIT_SHARE = 0.8
SINGLE_MS, SINGLE_AT_SYNC_MS = 0.7, 0.25
"""The median of one client, where a small append and sync takes no longer than this."""
CATALOG_KIB = {"1 partition, inlined": 8, "1 partition, segment": 8, "100 partitions": 24}
MEMORY_MB = 300

TITLES = {
    "publish-list": "publish, send_batch, lists",
    "publish-arrow": "publish, send_batch, Arrow",
    "publish-send": "publish, send() each",
    "read-arrow": "read as Arrow",
    "read-messages": "read as messages",
}


def rows(results: Results) -> list[Row]:
    """The table."""
    found = [row for size in (100, 1024) for name in TITLES for row in _work(results, name, size)]
    found += _limits(results) + _catalog(results) + _memory(results) + _syncs(results) + _latency(results)
    return found + product.rows(results.product) + years.rows(results.years) + queue.rows(results.queue)


def _work(results: Results, name: str, size: int) -> list[Row]:
    speed = results.median("bowstring", name, size, "messages_per_second")
    rate = results.median("bowstring", name, size, "megabytes_per_second")
    if speed is None or rate is None:
        return []
    kind = name.partition("-")[0]
    best = results.kafka_best(kind, size)
    found = _beside_kafka(results, name, size, speed, best)
    if size == 1024:
        found.append(_share_of_limit(results, name, rate))
    return found + [_cpu(results, name, best, size, side) for side in ("client", "server")]


def _beside_kafka(results: Results, name: str, size: int, speed: float, best: str | None) -> list[Row]:
    """The speed compared with the variant that the bar names, and with the faster one if that is
    another.
    """
    kafkas = {variant: results.median("kafka", variant, size, "messages_per_second") for variant in (NAMED, best) if variant}
    judge = NAMED if name.startswith("read") and kafkas[NAMED] is not None else best
    theirs = kafkas[judge] if judge else None
    bar = TIMES_KAFKA.get(name) if size == 100 else None
    title = f"{TITLES[name]}, {'100 B' if size == 100 else '1 KiB'}"
    found = [beside(title, speed, theirs, bar)]
    if best and best != judge:
        found.append(beside(f"  beside {best}", speed, kafkas[best], TIMES_TUNED.get((name, size))))
    return found


def _cpu(results: Results, name: str, best: str | None, size: int, side: str) -> Row:
    figure = f"{side}_cpu_per_million"
    ours = results.median("bowstring", name, size, figure) or 0.0
    theirs = results.median("kafka", best, size, figure) if best else None
    title = f"  CPU s/million, {'kit' if side == 'client' else 'broker'}"
    has_bar = name in TIMES_KAFKA and size == 100
    share = CPU_SHARES[side]
    reached = share * theirs / ours if theirs and ours and has_bar else None
    bar = f"≤ {share:g} ×" if has_bar else ""
    return Row(title, f"{ours:.3f}", f"{theirs:.3f}" if theirs else "", times(ours, theirs), bar, reached)


def _share_of_limit(results: Results, name: str, rate: float) -> Row:
    disk, loopback = results.limit("disk"), results.limit("loopback")
    if disk is None or loopback is None:
        return Row("  of the machine's limit", f"{rate:,.0f} MB/s")
    limit, what = (loopback, "loopback") if name.startswith("read") else min((disk, "synced disk"), (loopback, "loopback"))
    has_bar = name in TIMES_KAFKA
    return Row(
        f"  of {what}, {limit:,.0f} MB/s",
        f"{rate:,.0f} MB/s",
        "",
        f"{rate / limit:.2f}",
        f"≥ {LIMIT_SHARE:g}" if has_bar else "",
        rate / limit / LIMIT_SHARE if has_bar else None,
    )


def _limits(results: Results) -> list[Row]:
    if not results.limits:
        return []
    found = [Row("limit: synced appends", f"{results.limit('disk'):,.0f} MB/s")]
    return [*found, Row("limit: loopback", f"{results.limit('loopback'):,.0f} MB/s")]


def _catalog(results: Results) -> list[Row]:
    return [
        Row(f"catalog: {what}", f"{size / 1024:.1f} KiB", bar=f"≤ {CATALOG_KIB[what]} KiB", reached=CATALOG_KIB[what] * 1024 / size)
        for what, size in results.catalog.items()
    ]


def _memory(results: Results) -> list[Row]:
    if not results.broker_peak_bytes:
        return []
    peak = results.broker_peak_bytes / 1e6
    return [Row("broker memory, over all", f"{peak:.0f} MB", bar=f"≤ {MEMORY_MB} MB", reached=MEMORY_MB / peak)]


def _syncs(results: Results) -> list[Row]:
    found = results.syncs
    if not found:
        return []
    if "missing" in found:
        return [Row("answers before their sync", found["missing"])]
    early, answers = found["answers_without_sync"], found["messages"] + found["batches"]
    return [
        Row("answers before their sync", f"{early} of {answers}", bar="0", reached=float(early == 0)),
        Row("  syncs: journal, segments", f"{found['journal_syncs']}, {found['segment_syncs']}"),
    ]


def _latency(results: Results) -> list[Row]:
    found: list[Row] = []
    for who, told in {"bare": results.small_sync, **results.latency}.items():
        if told:
            title = "limit: 4 KiB append and sync" if who == "bare" else f"one by one, {who}"
            judged = who == "1 client" and results.small_sync and results.small_sync["median_ms"] <= SINGLE_AT_SYNC_MS
            reached = SINGLE_MS / told["median_ms"] if judged else None
            bar = f"≤ {SINGLE_MS:g} ms" if who == "1 client" else ""
            found.append(Row(title, f"{told['median_ms']:.2f} / {told['p99_ms']:.1f} ms", bar=bar, reached=reached))
            if "messages_per_second" in told:
                found.append(Row("  messages/s", f"{told['messages_per_second']:,}/s"))
    return found
