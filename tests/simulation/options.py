"""Which faults a seed has, and how many: a swarm.

A seed that has every fault at once finds less than many seeds that have some each: a disk that is
always full never fills a segment. So every class of fault is switched on or off by the seed, and
its rate is drawn over a wide range. All of it stands in one frozen value that a failing seed prints
in full.

Spans are in virtual seconds. A field that ends in `_every` is the mean time between two faults of
that kind, 0 for never; one that ends in `_rate` is a probability per operation.
"""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass, replace
from typing import Any

NEVER = 0.0


@dataclass(frozen=True)
class Options:
    """The faults of one seed. The defaults are a calm world: only delays."""

    # The order in which ready tasks run: uniform, or by priorities of tasks.
    priorities: bool = False

    # Machines with a disk. Of the cuts and crashes, the share `…_inside` strikes in the middle of a
    # disk operation, at most `…_operations` after it was decided on; the others strike between two
    # steps of the loop.
    power_cut_every: float = NEVER
    power_cut_inside: float = 0.7
    crash_every: float = NEVER
    crash_inside: float = 0.5
    inside_operations: int = 200
    client_crash_every: float = NEVER
    down_seconds: float = 1.0

    # The disk.
    reorder: bool = True
    wal_syncs_its_name: bool = True
    read_error_rate: float = 0.0
    write_error_rate: float = 0.0
    sync_error_rate: float = 0.0
    relapse: float = 0.0  # how likely a failed sync is followed by a power cut at the next start
    bit_flip_rate: float = 0.0
    bit_rot_rate: float = 0.0
    disk_bytes: int = 0  # the size of the disk, 0 for unlimited; `full_every` is how often others fill it
    full_every: float = NEVER
    full_seconds: float = 3.0
    sync_seconds: float = 0.002
    slow_rate: float = 0.0
    slow_seconds: float = 3.0

    # The network.
    delay_seconds: float = 0.001
    cut_rate: float = 0.0
    cut_every: float = NEVER
    half_open: float = 0.0
    half_open_seconds: float = 15.0
    clog_every: float = NEVER
    clog_seconds: float = 3.0
    silent: float = 0.0  # the share of breaks that no end is told of
    split_rate: float = 0.1  # how likely a read gets only some of the bytes that have arrived
    bytes_a_second: float = 0.0  # how fast a connection is, 0 for as fast as one likes
    pipe_bytes: int = 64 * 1024  # how many bytes fit between two processes

    # Sizes of the native transport.
    to_broker_bytes: int = 1024 * 1024
    to_caller_bytes: int = 1024 * 1024
    unsent_bytes: int = 256 * 1024
    large_bytes: int = 4 * 1024
    joined_bytes: int = 1024
    keepalive: float = 1.0  # by so much its keepalive is quicker or slower than in the product
    gathers: bool = False  # the loop gathers the writes of a turn by itself, as uvloop does

    # Something before the broker refuses a publish stream at its opening, for a reason that the
    # stream cannot help (an expired login). That says nothing about messages that were sent before.
    turn_away_rate: float = 0.0

    # The wall clocks.
    drift: float = 0.0
    jump_every: float = NEVER
    jump_seconds: float = 10.0

    def __str__(self) -> str:
        """All options, so that a failing seed can be understood without running it."""
        return " ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in asdict(self).items())

    def only(self, **faults: object) -> Options:
        """These, with some changed: the fault profile of a planted bug, for example."""
        return replace(self, **faults)  # type: ignore[arg-type]


def drawn(seed: int) -> Options:
    """The options of a seed."""
    source = random.Random(f"{seed}/options")

    def sometimes(chance: float, low: float, high: float) -> float:
        """Off, or a value whose size is as likely to be small as large."""
        on, value = source.random() < chance, math.exp(source.uniform(math.log(low), math.log(high)))
        return value if on else 0.0

    return Options(
        priorities=source.random() < 0.3,
        power_cut_every=sometimes(0.6, 3.0, 60.0),
        power_cut_inside=source.random(),
        crash_every=sometimes(0.5, 3.0, 60.0),
        crash_inside=source.random(),
        inside_operations=round(math.exp(source.uniform(math.log(5), math.log(2000)))),
        client_crash_every=sometimes(0.3, 10.0, 120.0),
        down_seconds=math.exp(source.uniform(math.log(0.01), math.log(8.0))),
        reorder=source.random() < 0.7,
        wal_syncs_its_name=source.random() < 0.5,
        read_error_rate=sometimes(0.15, 1e-4, 1e-2),
        write_error_rate=sometimes(0.15, 1e-5, 1e-3),
        sync_error_rate=sometimes(0.25, 1e-4, 1e-2),
        bit_flip_rate=sometimes(0.25, 1e-3, 5e-2),
        bit_rot_rate=sometimes(0.15, 1e-3, 2e-2),
        full_every=sometimes(0.25, 5.0, 60.0),
        full_seconds=math.exp(source.uniform(math.log(0.1), math.log(10.0))),
        sync_seconds=math.exp(source.uniform(math.log(2e-4), math.log(2e-2))),
        slow_rate=sometimes(0.3, 1e-4, 1e-2),
        slow_seconds=math.exp(source.uniform(math.log(0.1), math.log(10.0))),
        delay_seconds=math.exp(source.uniform(math.log(1e-4), math.log(5e-2))),
        cut_rate=sometimes(0.5, 1e-4, 2e-2),
        cut_every=sometimes(0.4, 2.0, 60.0),
        half_open=source.random() * 0.5,
        half_open_seconds=math.exp(source.uniform(math.log(1.0), math.log(40.0))),
        clog_every=sometimes(0.4, 2.0, 60.0),
        clog_seconds=math.exp(source.uniform(math.log(0.05), math.log(15.0))),
        drift=sometimes(0.5, 1e-6, 1e-2),
        jump_every=sometimes(0.4, 3.0, 60.0),
        jump_seconds=math.exp(source.uniform(math.log(0.1), math.log(7200.0))),
        relapse=source.random(),
        **drawn_wire(seed),
    )


def drawn_wire(seed: int) -> dict[str, Any]:
    """How bytes travel: with dice of its own, so that the rest of a seed stays what it was."""
    source = random.Random(f"{seed}/wire")
    return {
        "silent": source.choice((0.0, 0.1, 0.5)),
        "split_rate": source.choice((0.0, 0.02, 0.1, 0.5)),
        "bytes_a_second": source.choice((0.0, 0.0, 0.0, math.exp(source.uniform(math.log(5e4), math.log(5e6))))),
        "pipe_bytes": source.choice((2, 16, 128, 1024)) * 1024,
        "to_broker_bytes": source.choice((1, 16, 128, 1024)) * 1024,
        "to_caller_bytes": source.choice((1, 16, 128, 1024)) * 1024,
        "unsent_bytes": source.choice((1, 16, 256)) * 1024,
        "large_bytes": source.choice((200, 2_000, 16_384)),
        "joined_bytes": source.choice((0, 500, 8_192)),
        "keepalive": source.choice((1.0, 1.0, 0.3)),
        "gathers": source.random() < 0.5,
    }


def after(source: random.Random, mean: float) -> float:
    """How long until the next one of something that happens every `mean` seconds; never is beyond
    any run.
    """
    return source.expovariate(1.0 / mean) if mean > 0.0 else math.inf
