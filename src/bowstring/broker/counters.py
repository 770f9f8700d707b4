"""The counters of a broker: one set for all its incarnations, so that they only rise.

Everything here is counted per flush, per batch or per answer, never per message: a few additions
each. `broker.statistics` makes frozen values of it. Counters are not durable; they begin at 0 with
the process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import Final, NamedTuple

from bowstring import errors
from bowstring.core.answers import Answer, Stored

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets: a sync takes 0.1 ms on a good disk and 10 s on one that is about
to fail.
"""


class Distribution(NamedTuple):
    """A distribution of durations."""

    buckets: tuple[tuple[float, int], ...]
    """An upper bound in seconds, and how many took at most that long; the last bound is infinite."""
    seconds: float
    """The sum."""


class Durations:
    """Counts durations in buckets."""

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(SECONDS, seconds)] += 1
        self._sum += seconds

    def distribution(self) -> Distribution:
        """The counts up to now."""
        return Distribution(tuple(zip((*SECONDS, float("inf")), accumulate(self._counts), strict=True)), self._sum)


class Work:
    """One kind of upkeep."""

    def __init__(self) -> None:
        self.turns = 0
        self.seconds = 0.0
        self.troubles = 0
        """Turns that a full disk or a damaged page ended."""


class QueueCounters:
    """What all subscriptions have done, in messages."""

    def __init__(self) -> None:
        self.leased = 0
        self.acked = 0
        self.nacked = 0
        """Rejects included."""
        self.expired = 0
        """Those whose lease ended unsettled."""
        self.pushed_batches = 0
        self.pushed_messages = 0
        self.pushed_bytes = 0
        self.dead_letters = 0
        self.aside: Counter[str] = Counter()
        """Those that were settled because they could not be delivered, by the reason."""

    def pushed(self, messages: int, size: int) -> None:
        """Counts messages handed to a consumer."""
        self.pushed_batches += 1
        self.pushed_messages += messages
        self.pushed_bytes += size


class Counters:
    """The counters of one broker."""

    def __init__(self) -> None:
        self.batches = 0
        self.messages = 0
        self.bytes = 0
        """Published and committed: batches, messages, and bytes of pages."""
        self.duplicates = 0
        """Messages that were known already, by their batch or by their id."""
        self.refused: Counter[str] = Counter()
        """Batches that were refused, by the kind of the error."""
        self.answers = 0
        self.fetched_messages = 0
        self.fetched_bytes = 0
        """Handed to readers: pieces of partitions, messages, and bytes of batches."""
        self.damaged = 0
        """Reads that ended because a page did not verify."""
        self.topic_bytes: Counter[int] = Counter()
        """Bytes published, by topic id."""
        self.topic_fetched: Counter[int] = Counter()
        self.topic_fetched_bytes: Counter[int] = Counter()
        """Messages and bytes handed to readers, by topic id."""
        self.flushes = 0
        self.inlined = 0
        """Flushes that carried their pages in the journal row."""
        self.publishing = Durations()
        self.flushing = Durations()
        self.syncing = Durations()
        self.committing = Durations()
        self.seals = 0
        self.sealed_pages = 0
        self.sealed_bytes = 0
        self.cleaned_bytes = 0
        self.expired = 0
        """Messages that retention has taken."""
        self.released = 0
        """Segments given back to the store."""
        self.upkeep: dict[str, Work] = {}
        self.queue = QueueCounters()
        self.incarnations = 0

    def settled(self, outcome: Answer | Exception) -> None:
        """Counts an answered batch, unless it was stored: those are counted with their flush."""
        if isinstance(outcome, Stored):
            if outcome.duplicate or outcome.repeats:
                self.duplicates += outcome.rows if outcome.duplicate else sum([repeat.rows for repeat in outcome.repeats])
        elif isinstance(outcome, Exception):
            self.refused[outcome.kind if isinstance(outcome, errors.Error) else "bug"] += 1

    def fetched(self, topic: int, answers: int, messages: int, size: int) -> None:
        """Counts messages handed to a reader."""
        self.answers += answers
        self.fetched_messages += messages
        self.fetched_bytes += size
        self.topic_fetched[topic] += messages
        self.topic_fetched_bytes[topic] += size

    def work(self, name: str) -> Work:
        """The counters of one kind of upkeep."""
        return self.upkeep.setdefault(name, Work())

    def forget_topic(self, topic: int) -> None:
        """Forgets the counters of a deleted topic."""
        for counter in (self.topic_bytes, self.topic_fetched, self.topic_fetched_bytes):
            counter.pop(topic, None)
