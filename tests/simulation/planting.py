"""What a planted bug is, and the worlds to look for it in."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.simulation.load import KIB, Load
from tests.simulation.options import Options

Switch = Callable[[], Generator[None]]

CALM = Options()
POWER = Options(power_cut_every=3.0, power_cut_inside=0.8, inside_operations=60, down_seconds=0.3, half_open_seconds=0.5)
CRASHES = Options(crash_every=3.0, crash_inside=0.8, inside_operations=60, down_seconds=0.3)
CUTS = Options(cut_rate=0.01, cut_every=2.0, half_open=0.3, half_open_seconds=3.0)
FULL = Options(full_every=3.0, full_seconds=1.0)
FAILING = Options(sync_error_rate=0.01, relapse=0.9, down_seconds=0.3, half_open_seconds=0.5)
SLOW = Options(slow_rate=0.05, slow_seconds=1.0)
SEGMENTS = Load(seconds=15.0, mortal_topics=0, inline_bytes=0, tail_bytes=0, pages_bytes=0, tight=0.0)
JOURNAL = Load(seconds=15.0, mortal_topics=0, inline_bytes=16 * KIB, large=0.0, tight=0.0)
IDS = JOURNAL.only(natural=1.0, ids=20)
HURRY = Load(seconds=15.0, mortal_topics=0, tight=0.9, tight_seconds=0.2, natural=0.7, ids=30)
SEALING = Load(
    seconds=10.0, topics=2, mortal_topics=0, tight=0.0, readers=3, producers=3, pause_seconds=0.1, batches=0.2, tail_bytes=0
).only(seal_seconds=1.0, upkeep_seconds=0.4)
READING = JOURNAL.only(
    seconds=6.0, topics=1, producers=2, readers=0, named=3, pause_seconds=0.1, attributed=0.4, delayed=0.2, plain=0.0
).only(seal_seconds=1.0, upkeep_seconds=0.4)
KEEPING = SEALING.only(topics=1, brief_topics=2, retention_seconds=2.0)
QUEUE = JOURNAL.only(seconds=6.0, topics=1, producers=2, readers=0, consumers=3, plain=0.0, pause_seconds=0.05).only(
    lease_seconds=1.0, plain_consumers=0.5, nacks=0.2, credit_max=30, named_consumers=0.5
)
"""One topic, and three processes that consume it."""
SEALED_QUEUE = QUEUE.only(seconds=8.0, seal_seconds=1.0, upkeep_seconds=0.4, chunk_bits=4, nacks=0.4)

THEMES = (
    (CRASHES.only(slow_rate=0.05, slow_seconds=0.5), HURRY),
    (POWER.only(slow_rate=0.05, slow_seconds=0.5), HURRY),
    (POWER.only(slow_rate=0.02, slow_seconds=0.3, cut_rate=0.01), IDS),
    (POWER.only(sync_error_rate=0.02), SEGMENTS),
    (POWER, SEGMENTS.only(topics=2, mortal_topics=2, mortal_seconds=0.5, partitions_max=2)),
    (CRASHES.only(full_every=2.0, full_seconds=1.5), SEGMENTS.only(tail_bytes=1024 * KIB, tight=0.5, tight_seconds=0.3)),
    (SLOW, JOURNAL.only(usurp_every=1.0)),
    (POWER.only(inside_operations=300), KEEPING.only(delayed=0.3, expiring=0.3, inline_bytes=0)),
    (CRASHES, SEALING.only(natural=0.7, ids=20, plain=0.5, expiring=0.3, seal_seconds=0.5)),
    (CUTS.only(disk_bytes=2400 * KIB), KEEPING.only(topics=0, sized_topics=1, retention_bytes=400 * KIB, seconds=20.0, large=0.6)),
    (POWER.only(slow_rate=0.05, slow_seconds=0.3, client_crash_every=4.0), READING.only(seconds=12.0, brief_topics=1)),
    (CUTS, HURRY.only(plain=0.5, under_way_max=60, pause_seconds=0.01, partitions_max=1)),
    (FAILING, JOURNAL.only(large=0.1, inline_bytes=4 * KIB, seal_seconds=3.0, upkeep_seconds=1.0)),
)
"""Faults and work that belong together."""


class Bug(NamedTuple):
    """A planted bug, and the world to look for it in."""

    switch: Switch
    options: Options
    load: Load

    @property
    def name(self) -> str:
        return self.switch.__name__

    def planted(self) -> Any:
        return contextmanager(self.switch)()


BUGS: list[Bug] = []


def bug(options: Options, load: Load) -> Callable[[Switch], Switch]:
    def planted(switch: Switch) -> Switch:
        BUGS.append(Bug(switch, options, load))
        return switch

    return planted
