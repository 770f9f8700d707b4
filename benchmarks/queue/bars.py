"""The bars of the queue and the results, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.table import Row, beside, heading, least, most, speed, times
from benchmarks.turns import Runs, median

Found = dict[str, Any]

SIZES = {"100": "100 B", "1024": "1 KiB"}
PEERS = {"kafka": "Kafka's share group", "redis": "Redis Streams", "nats": "NATS JetStream", "rabbit": "RabbitMQ's quorum queue"}
TIMES = {
    "consume-messages": {"kafka": 1.5, "redis": 5.0, "nats": 5.0, "rabbit": 5.0},
    "consume-batches": {"kafka": 6.0},
}
PER_SECOND = {"consume-messages": 700_000, "consume-batches": 3_000_000}
"""At 100 B."""
TITLES = {
    "consume-messages": "for message in consumer: ack()",
    "consume-blocks": "with message:",
    "consume-asyncio": "async for message in consumer: ack()",
    "consume-batches": "batches consumed and acked as Arrow",
    "consume-nacked": "a tenth nacked, acks out of order",
    "consume-nacked-batches": "a tenth of each batch nacked, out of order",
}
SHARES = {
    "consume-blocks": ("consume-messages", 0.7),
    "consume-asyncio": ("consume-messages", 0.7),
    "consume-nacked": ("consume-messages", 0.5),
    "consume-nacked-batches": ("consume-batches", 0.5),
}
"""Of what other work's rate, and how much."""
BROKER_CPU = 0.5
DELIVERY = 1.15
LEAST, MOST = 0.8, 1.2
CROWD_MB = 400
IN_ORDER_BYTES, RETRY_BYTES = 1.0, 40.0
EXPIRY_MS = 100.0
TAILS = 1.1
START_SECONDS = 1.5
KEY_SHARE, KEY_POISON, KEY_ELSE = 0.6, 1.2, 0.2
DAY_MB, DAY_START_SECONDS, DAY_CPU_PERCENT, DAY_LATE_MS = 400, 10.0, 5.0, 100.0
DUE_SHARE, BACKOFF_SHARE = 0.5, 0.5
FILTER_TIMES = 5.0


def rows(found: dict[str, Found]) -> list[Row]:
    """The lines of the measurements, below a heading."""
    made = [row for name, figures in found.items() for row in _ROWS[name](figures)]
    return [heading("Queues"), *made] if made else []


def _consume(found: Found) -> list[Row]:
    return [row for size in found for way in TITLES for row in _way(found[size], way, size)]


def _way(runs: Runs, way: str, size: str) -> list[Row]:
    ours = median(runs, way, "messages_per_second")
    if ours is None:
        return []
    title = f"{TITLES[way]}, {SIZES[size]}"
    if way in SHARES:
        of, bar = SHARES[way]
        whole = median(runs, of, "messages_per_second")
        share = ours / whole if whole else None
        made = [Row(title, speed(ours), ratio=f"{share:.2f}" if share else "", bar=f"≥ {bar:g}", reached=share / bar if share else None)]
    else:
        made = _beside_peers(runs, way, title, ours)
        if size == "100":
            bar = PER_SECOND[way]
            made.append(Row("  messages/s", speed(ours), bar=f"≥ {speed(bar)}", reached=ours / bar))
    return [*made, *(_cpu(runs, way, side) for side in ("client", "server"))]


def _beside_peers(runs: Runs, way: str, title: str, ours: float) -> list[Row]:
    bars = TIMES[way]
    made = [beside(f"{title}, beside Kafka", ours, median(runs, "kafka", "messages_per_second"), bars["kafka"])]
    for peer in ("redis", "nats", "rabbit"):
        if theirs := median(runs, peer, "messages_per_second"):
            made.append(beside(f"  beside {PEERS[peer]}", ours, theirs, bars.get(peer)))
    return made


def _cpu(runs: Runs, way: str, side: str) -> Row:
    ours, theirs = (median(runs, who, f"{side}_cpu_per_million") for who in (way, "kafka"))
    title = f"  CPU s/million, {'kit' if side == 'client' else 'broker'}"
    has_bar = side == "server" and way in TIMES
    reached = BROKER_CPU * theirs / ours if has_bar and ours and theirs else None
    bar = f"≤ {BROKER_CPU:g} ×" if has_bar else ""
    return Row(title, f"{ours or 0:.3f}", f"{theirs:.3f}" if theirs else "", times(ours or 0, theirs), bar, reached)


def _delivery(found: Found) -> list[Row]:
    (log, log_late), (queue, late) = ([median(found, who, figure) or 0.0 for figure in ("median_ms", "p99_ms")] for who in ("log", "queue"))
    both = [median(found, "both", f"{who}_{figure}") or 0.0 for figure in ("median_ms", "p99_ms") for who in ("queue", "log")]
    reached = DELIVERY / (queue / log) if log and queue else None
    return [
        Row("leased delivery at 1,000/s beside the log's, median", _ms(queue), _ms(log), times(queue, log), f"≤ {DELIVERY:g} ×", reached),
        Row("  99 %", _ms(late), _ms(log_late), times(late, log_late)),
        Row("  both at once, median", _ms(both[0]), _ms(both[1]), times(both[0], both[1])),
        Row("  both at once, 99 %", _ms(both[2]), _ms(both[3]), times(both[2], both[3])),
    ]


def _ms(value: float) -> str:
    return f"{value:.2f} ms" if value else ""


def _crowd(found: Found) -> list[Row]:
    peak = found["peak_bytes"] / 1e6
    made = [
        least(f"{found['consumers']:,} consumers, one partition, 20,000/s: least of the mean", found["least"], LEAST),
        Row("  most of the mean", "", ratio=f"{found['most']:.2f}", bar=f"≤ {MOST:g}", reached=MOST / found["most"]),
        most("  broker memory", peak, CROWD_MB, "MB", digits=0),
        Row("  broker CPU s/million", f"{found['server_cpu_per_million']:.1f}"),
        Row("  delivery, median / 99 %", f"{found['median_ms']:.1f} / {found['p99_ms']:.1f} ms"),
    ]
    if found["backlog"]:
        made = [row._replace(reached=0.0 if row.reached is not None else None) for row in made]
        made.append(Row("  not delivered in time", f"{found['backlog']:,}"))
    return made


def _memory(found: Found) -> list[Row]:
    in_order, with_retry = (max(found[name], 0.001) for name in ("in_order", "with_retry"))
    return [
        most("broker memory a pending message, in order", in_order, IN_ORDER_BYTES, "B"),
        most("broker memory a pending message, with a retry", with_retry, RETRY_BYTES, "B"),
        *(Row(f"  the ledger alone, {name}", f"{held:.2f} B") for name, held in found["ledger"].items()),
    ]


def _expiry(found: Found) -> list[Row]:
    return [
        most(f"{found['leased']:,} leases end at once: without an answer", found["longest_ms"], EXPIRY_MS, "ms", digits=0),
        Row("  before that, in as long a time", f"{found['usual_ms']:.0f} ms"),
        Row("  they are so many grants", f"{found['leases']:,}"),
    ]


def _tails(found: Found) -> list[Row]:
    without, beside_them = (_cost(found["busy"], name) for name in ("", " and settlements"))
    ratio = beside_them / without if without else 0.0
    cost = f"{beside_them * 1e3:.0f} ms/s"
    made = [
        Row(
            "100 readers at the tail beside 300 settling flushes/s",
            cost,
            f"{without * 1e3:.0f} ms/s",
            f"{ratio:.2f} ×",
            f"≤ {TAILS:g} ×",
            TAILS / ratio if ratio else None,
        )
    ]
    idle, idle_beside = (_cost(found["idle"], name) for name in ("", " and settlements"))
    made.append(Row("  the same where nothing is published", f"{idle_beside * 1e3:.0f} ms/s", f"{idle * 1e3:.0f} ms/s"))
    flushes = found["busy"]["settlements"]["broker"] - found["busy"]["neither"]["broker"]
    return [*made, Row("  the settlements alone, broker", f"{flushes * 1e3:.0f} ms/s")]


def _cost(spans: dict[str, dict[str, float]], beside_what: str) -> float:
    """CPU seconds a second that the readers cost, in their process and in the broker."""
    with_readers = spans[f"readers{beside_what}"]
    without = spans["settlements" if beside_what else "neither"]
    return with_readers["readers"] + with_readers["broker"] - without["broker"]


def _start(found: Found) -> list[Row]:
    return [
        most(f"start, {found['partitions']:,} partitions with 10 subscriptions each", found["seconds"], START_SECONDS, "s"),
        Row("  of it before its own code", f"{found['before_own_code']:.2f} s"),
        Row("  CPU, over all", f"{found['cpu_seconds']:.2f} s"),
    ]


def _keys(found: Found) -> list[Row]:
    shared, keyed, poisoned = (median(found["rates"], who, "messages_per_second") or 0.0 for who in ("shared", "key_shared", "poisoned"))
    made = [beside("100,000 keys, 8 consumers: key-shared beside shared", keyed, shared, KEY_SHARE)]
    longer = keyed / poisoned if poisoned else 0.0
    reached = KEY_POISON / longer if longer else None
    made.append(
        Row("  one key nacked for ever: time of the others", "", ratio=f"{longer:.2f} ×", bar=f"≤ {KEY_POISON:g} ×", reached=reached)
    )
    for when, title in (("before", "8 consumers"), ("after", "10 s after 2 more joined")):
        shares = found["balance"][when]
        made += [
            Row(
                f"  {title}: the heaviest key's, else",
                "",
                ratio=f"{shares['else']:.2f}",
                bar=f"≤ {KEY_ELSE:g}",
                reached=KEY_ELSE / max(shares["else"], 0.001),
            ),
            least("  least of the others' mean", shares["least"], LEAST),
            Row(
                "  most of the others' mean",
                "",
                ratio=f"{shares['most']:.2f}",
                bar=f"≤ {MOST:g}",
                reached=MOST / max(shares["most"], 0.001),
            ),
        ]
    return made


def _day(found: Found) -> list[Row]:
    window, start = found["window"], found["start"]
    grown = max(found["published_peak_bytes"], found["delivering_peak_bytes"]) - found["empty_bytes"]
    return [
        most(f"{found['count']:,} scheduled over a day: memory above an empty broker", grown / 1e6, DAY_MB, "MB", digits=0),
        Row("  while delivering", f"{(found['delivering_peak_bytes'] - found['empty_bytes']) / 1e6:.0f} MB"),
        most("  start, until a consumer has the first message", start["first_message"], DAY_START_SECONDS, "s"),
        Row("  start, until a call is answered", f"{start['seconds']:.2f} s"),
        most(f"  CPU while {window['per_second']:.0f} a second are due", 100 * window["cpu_share"], DAY_CPU_PERCENT, "%", digits=1),
        most("  lateness, 99 %", max(window["p99_ms"], 0.001), DAY_LATE_MS, "ms", digits=1),
        Row("  lateness, median / most", f"{window['median_ms']:.1f} / {window['most_ms']:.1f} ms"),
        _early(window["early"], window["rows"]),
        Row("  published", speed(found["count"] / found["publish_seconds"])),
    ]


def _early(early: int, rows: int) -> Row:
    return Row("  early", f"{early} of {rows:,}", bar="0", reached=float(early == 0))


def _minute(found: Found) -> list[Row]:
    rates, live = found["rates"], found["live"]
    shared, due = (median(rates, who, "messages_per_second") or 0.0 for who in ("shared", "due"))
    early = live["early"] + sum(run["early"] for run in rates["due"])
    return [
        beside(f"{found['count']:,} due within {found['seconds']:.0f} s, worked off, beside shared", due, shared, DUE_SHARE),
        Row("  broker CPU s/million", *(f"{median(rates, who, 'server_cpu_per_million') or 0:.2f}" for who in ("due", "shared"))),
        _early(early, live["rows"] + found["count"] * len(rates["due"])),
        Row("  as they become due: late, median / 99 %", f"{live['median_ms']:.0f} / {live['p99_ms']:.0f} ms"),
        Row("  the last is acked so long after it was due", f"{live['after_seconds']:.1f} s"),
    ]


def _backoff(found: Found) -> list[Row]:
    rates, made = found["rates"], list[Row]()
    for way, plain, title in (
        ("consume-backoff", "consume-messages", "message by message"),
        ("consume-backoff-rows", "consume-rows", "batches"),
    ):
        ours, theirs = (median(rates, who, "messages_per_second") or 0.0 for who in (way, plain))
        made.append(beside(f"a tenth nacked with a backoff, {title}, beside none", ours, theirs, BACKOFF_SHARE))
    return made


def _filter(found: Found) -> list[Row]:
    rates = {who: median(found["rates"], who, "messages_per_second") or 0.0 for who in found["rates"]}
    return [
        beside("one in 1,000 passes a filter over an attribute, beside all", rates["attribute"], rates["all"], FILTER_TIMES),
        beside("  a filter over the key", rates["key"], rates["all"], FILTER_TIMES),
        beside("  over an attribute, beside all as batches", rates["attribute"], rates["all_batches"]),
    ]


_ROWS: dict[str, Callable[[Found], list[Row]]] = {
    "queue-consume": _consume,
    "queue-delivery": _delivery,
    "queue-crowd": _crowd,
    "queue-memory": _memory,
    "queue-expiry": _expiry,
    "queue-tails": _tails,
    "queue-start": _start,
    "queue-keys": _keys,
    "queue-day": _day,
    "queue-minute": _minute,
    "queue-backoff": _backoff,
    "queue-filter": _filter,
}
