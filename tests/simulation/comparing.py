"""Invariant 6: the state that runs, or ran until it died, against the state that is loaded."""

from __future__ import annotations

import copy
from typing import Any

from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.core.changes import Change
from bowstring.core.partition import MINUTE, Partition
from tests.history import checkers
from tests.history.violations import Violation


def missing_in(live: Epoch, sequence: int) -> list[Change]:
    """What live state has and loaded state lacks, if `sequence` is the last row that was loaded."""
    flusher = live.log.flusher
    late = [change for each in flusher._under_way if each.sequence > sequence for change in each.changes]
    return late + flusher._pending.changes


def compare(dead: Epoch, loaded: Epoch, sequence: int) -> list[Violation]:
    """What the dead incarnation had, against what was loaded with what did not land applied on top."""
    missing = missing_in(dead, sequence)
    broken: list[Violation] = []
    for key, actor in dead.topics._actors.items():
        if key in loaded.topics._actors:
            mine = [change for change in missing if (change.topic, change.partition) == key]
            broken += compare_partition(f"topic {key[0]}/{key[1]}", actor.partition, loaded.topics._actors[key].partition, mine, sequence)
    return broken


def _forget_old_batches(partition: Partition, horizon: int) -> None:
    """Live state forgot them by the deduplication window that the topic had at the time, loaded state by
    the one that it has now: whatever the window, those of the last minute are known.
    """
    for producer, batches in list(partition.producers._batches.items()):
        batches.forget_before(horizon)
        if batches.newest < horizon:
            del partition.producers._batches[producer]


def compare_partition(who: str, live: Partition, loaded: Partition, missing: list[Change], sequence: int) -> list[Violation]:
    if loaded.snapshot_sequence > sequence:  # then it holds some of what is missing, and there is nothing to compare
        case = f"{who} has a snapshot of flush {loaded.snapshot_sequence}, and flush {sequence} is the last that is committed"
        return [Violation("nothing_is_ahead_of_the_journal", case)]
    live, loaded = copy.deepcopy(live), copy.deepcopy(loaded)
    if loaded.sealed_end > live.sealed_end:  # it died after its extent was committed, and before it heard of that
        live.sealed(loaded.sealed_end, loaded.sealed_bytes)
    for change in missing:
        loaded.apply(change)
    for partition in (live, loaded):  # pages go when a floor is committed, and one of the two may not have heard of that
        partition._drop_pages_below_floor()
        _forget_old_batches(partition, max(live.arrived, loaded.arrived) - MINUTE)
    expected, found = live.state(), loaded.state()
    blind = live.unread.until or loaded.unread.until  # a page could not be read at load: no ids are taken, so none need be known
    for state in (expected, found):
        ids: Any = state["ids"]
        state["ids"] = [] if blind else [pair for pair in ids if pair[0] < live.committed_offset]
    expected["pages"], found["pages"] = live.pages.state(), loaded.pages.state()[: len(live.pages)]
    expected["sealed"], found["sealed"] = live.sealed_end, loaded.sealed_end
    return checkers.live_equals_loaded(who, expected, found)
