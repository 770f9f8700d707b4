"""The plan: the measurements, how often, and in which order.

Ours and Kafka's take turns, and who begins changes from round to round, so that a machine that is
slower for a while is slower for both. Before each measurement everything that is written and not
yet on the disk is put there (`sync`): Kafka leaves that to the kernel, and what it leaves would
otherwise be written during our turn.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import bowstring
from benchmarks import catalog_bytes, kafka, limits, server, syncs
from benchmarks.clients import work
from benchmarks.peers import node
from benchmarks.product import rounds as product
from benchmarks.queue import rounds as queue
from benchmarks.turns import Setting, say
from benchmarks.years import rounds as years

PUBLISH = ("publish-list", "publish-arrow", "publish-send")
READ = ("read-arrow", "read-messages")
OTHERS = ("limits", "catalog", "syncs", "latency")
NAMES = PUBLISH + READ + OTHERS + product.NAMES + years.NAMES + queue.NAMES
GROUPS = {"queue": queue.NAMES}
"""Names for several at once."""
READ_SOURCE = "publish-list"
"""How the messages that are read back were published."""


@dataclass(frozen=True)
class Plan:
    """How much of everything. `counts` and `rows` (messages a call of send_batch) are by the size
    of a message.
    """

    counts: dict[int, int]
    rows: dict[int, int]
    rounds: int
    probe_mib: int
    probe_seconds: float
    flushes: int
    singles: int
    batches: int
    latencies: int
    crowd: int
    only: tuple[str, ...] = NAMES
    peers: bool = True
    quick: bool = False

    def wants(self, *names: str) -> bool:
        return any(name in self.only for name in names)


ROWS = {100: 10_000, 1024: 4_000}
FULL = Plan(
    counts={100: 5_000_000, 1024: 1_000_000},
    rows=ROWS,
    rounds=5,
    probe_mib=512,
    probe_seconds=2.0,
    flushes=500,
    singles=200,
    batches=50,
    latencies=2_000,
    crowd=64_000,
)
QUICK = Plan(
    counts={100: 500_000, 1024: 100_000},
    rows=ROWS,
    rounds=1,
    probe_mib=128,
    probe_seconds=0.5,
    flushes=50,
    singles=50,
    batches=5,
    latencies=200,
    crowd=6_400,
    quick=True,
)


@dataclass
class Results:
    """Everything that was found. A measurement is the figures of one run, and whose, which work,
    which size, which round.
    """

    measurements: list[dict[str, Any]] = field(default_factory=list)
    limits: list[dict[str, Any]] = field(default_factory=list)
    catalog: dict[str, float] = field(default_factory=dict)
    syncs: dict[str, Any] = field(default_factory=dict)
    latency: dict[str, dict[str, Any]] = field(default_factory=dict)
    small_sync: dict[str, float] = field(default_factory=dict)
    years: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What concerns a store that lives for years."""
    product: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The log as people use it, from Python, from the shell and from Spark."""
    queue: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Consuming, settling, and what queues cost."""
    missing: dict[str, str] = field(default_factory=dict)
    """Peers that were not measured, and why."""
    failed: dict[str, str] = field(default_factory=dict)
    """The measurements that failed, and how."""
    broker_peak_bytes: int = 0
    kafka: str = ""
    """Its version, or why it was not measured."""
    has_kafka: bool = False

    def median(self, who: str, name: str, size: int, figure: str) -> float | None:
        found = [m[figure] for m in self.measurements if (m["who"], m["work"], m["size"]) == (who, name, size)]
        return statistics.median(found) if found else None

    def kafka_best(self, kind: str, size: int) -> str | None:
        """The faster variant of Kafka's, by its median."""
        _, variants = kafka.VARIANTS[kind]
        measured = [(self.median("kafka", variant, size, "messages_per_second"), variant) for variant in variants]
        return max(((speed, variant) for speed, variant in measured if speed is not None), default=(0, None))[1]

    def limit(self, name: str) -> float | None:
        """`disk`: the best kind of synced append by its median; `loopback`: the median."""
        if not self.limits:
            return None
        if name == "loopback":
            return statistics.median(found["loopback"] for found in self.limits)
        kinds = self.limits[0]["disk"]
        return max(statistics.median(found["disk"][kind] for found in self.limits) for kind in kinds)


class Rounds:
    """Carries a plan out in a folder, which is on the disk that is to be measured."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._kafka: kafka.Kafka | None = None
        self.results = Results()

    def run(self) -> Results:
        with contextlib.ExitStack() as stack:
            self._start_kafka(stack)
            for number in range(1, self._plan.rounds + 1 if self._plan.wants("limits", *PUBLISH, *READ) else 1):
                self._round(number)
        self._beside()
        return self.results

    def _start_kafka(self, stack: contextlib.ExitStack) -> None:
        reason = node.missing("kafka") if self._plan.peers else "--no-peers"
        self.results.kafka = reason or kafka.version()
        if not self._plan.wants(*PUBLISH, *READ):
            return
        if reason:
            self.results.missing["Kafka"] = reason
            return say(f"without Kafka: {reason}")
        say(f"Kafka {kafka.version()}: starting and warming up")
        self._kafka = kafka.Kafka()
        self.results.has_kafka = True
        stack.callback(self._kafka.stop)
        self._kafka.start("default")
        self._kafka.warm_up(self._plan.counts)

    # Rounds

    def _round(self, number: int) -> None:
        say(f"round {number} of {self._plan.rounds}")
        for size in self._plan.counts:
            turns = [self._ours, self._kafkas]
            for turn in turns if number % 2 else reversed(turns):
                turn(number, size)
        if self._plan.wants("limits", *PUBLISH, *READ):
            self._limits()

    def _ours(self, number: int, size: int) -> None:
        reads = [name for name in READ if self._plan.wants(name)]
        for name in PUBLISH:
            is_source = name == READ_SOURCE and bool(reads)
            if not is_source and not self._plan.wants(name):
                continue
            with server.running(self._folder) as broker:
                self._measure(broker, name, size, number)
                for read in reads if is_source else ():
                    broker.restart()
                    self._measure(broker, read, size, number)
            self._note_peak(broker)

    def _measure(self, broker: server.Server, name: str, size: int, number: int) -> None:
        os.sync()
        figures = work(name, broker, size=size, count=self._plan.counts[size], rows=self._plan.rows[size])
        self._keep("bowstring", name, size, number, figures)

    def _kafkas(self, number: int, size: int) -> None:
        if self._kafka is None:
            return
        for kind, names in (("publish", PUBLISH), ("read", READ)):
            workload, variants = kafka.VARIANTS[kind]
            for variant in variants:
                if self._plan.wants(*names) or (kind == "publish" and self._plan.wants(*READ)):
                    os.sync()
                    figures = self._kafka.measure(workload, variant, size, self._plan.counts[size])
                    self._keep("kafka", variant, size, number, figures)

    def _keep(self, who: str, name: str, size: int, number: int, figures: dict[str, Any]) -> None:
        self.results.measurements.append({"who": who, "work": name, "size": size, "round": number, **figures})
        speed, rate = figures["messages_per_second"] / 1e6, figures["megabytes_per_second"]
        cpu = f"{figures['client_cpu_per_million']:.2f} + {figures['server_cpu_per_million']:.2f} CPU s per million"
        busy = figures["other_busy_seconds"]
        noise = f"; others were busy for {busy:.1f} s" if busy > 0.2 * figures["seconds"] else ""
        say(f"  {who:9} {name:15} {size:5} B  {speed:6.2f} M/s  {rate:7.1f} MB/s  {cpu}{noise}")

    def _limits(self) -> None:
        os.sync()
        disk = limits.disk(self._folder, self._plan.probe_mib)
        loopback = limits.loopback(self._plan.probe_seconds)
        self.results.limits.append({"disk": disk, "loopback": loopback})
        say(f"  limits: synced appends {max(disk.values()):.0f} MB/s, loopback {loopback:.0f} MB/s")

    # Beside the rounds

    def _beside(self) -> None:
        plan = self._plan
        if plan.wants("catalog"):
            say("bytes of the catalog for a flush")
            self.results.catalog = catalog_bytes.measure(self._folder, plan.flushes)
        if plan.wants("latency"):
            say("one message at a time: one client, then 64")
            self._latency()
        if plan.wants("syncs"):
            say("syncs, by strace")
            self.results.syncs = syncs.prove(self._folder, plan.singles, plan.batches)
        setting = Setting(self._folder, plan.rounds, plan.peers, plan.quick, self.results.missing)
        for name, measure in product.WORKS.items():
            if plan.wants(name):
                say(f"the log in use: {name}")
                self._apart(name, self.results.product, partial(measure, setting))
        for name, measure in queue.WORKS.items():
            if plan.wants(name):
                say(f"queues: {name}")
                self._apart(name, self.results.queue, partial(measure, setting))
        for name, measure in (years.QUICK if plan.quick else years.FULL).items():
            if plan.wants(name):
                say(f"a store for years: {name}")
                self._apart(name, self.results.years, partial(measure, self._folder))

    def _apart(self, name: str, found: dict[str, dict[str, Any]], measure: Callable[[], dict[str, Any]]) -> None:
        """One measurement that fails does not take the others with it: the table tells that it
        failed, and how.
        """
        os.sync()
        try:
            found[name] = measure()
        except (RuntimeError, OSError, subprocess.SubprocessError, bowstring.Error) as error:
            say(f"  {name} failed: {error}")
            self.results.failed[name] = f"{type(error).__name__}: {error}"

    def _latency(self) -> None:
        os.sync()
        self.results.small_sync = limits.small_sync(self._folder, self._plan.latencies)
        with server.running(self._folder) as broker:
            one = work("one-by-one", broker, size=100, count=self._plan.latencies, rows=1)
            del one["windows"]
            self.results.latency["1 client"] = one
            self.results.latency["64 clients"] = work("many-clients", broker, size=100, count=self._plan.crowd)
        self._note_peak(broker)

    def _note_peak(self, broker: server.Server) -> None:
        self.results.broker_peak_bytes = max(self.results.broker_peak_bytes, broker.peak_bytes)
