"""Ours and the peers' take turns, and who begins changes from round to round: a machine that is
slower for a while is slower for all.

Before each measurement everything that is written and not yet on the disk is put there (`sync`): a
peer that leaves that to the kernel would otherwise have it written during our turn.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers import node

Turn = Callable[[], dict[str, Any]]
Runs = dict[str, list[dict[str, Any]]]
"""The figures of every run, by who ran."""


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def take_turns(rounds: int, turns: Mapping[str, Turn | None]) -> Runs:
    """So many rounds of those that are there."""
    there = {who: turn for who, turn in turns.items() if turn is not None}
    found: Runs = {who: [] for who in there}
    for number in range(rounds):
        for who in there if number % 2 == 0 else reversed(there):
            os.sync()
            figures = there[who]()
            found[who].append(figures)
            told = ", ".join(f"{name} {figures[name]:,}" for name in TOLD if name in figures)
            say(f"  round {number + 1}: {who:10} {told}")
    return found


TOLD = ("messages_per_second", "median_ms", "p99_ms", "in_seconds", "out_seconds")
"""The progress messages of a run."""


def median(runs: Runs, who: str, figure: str) -> float | None:
    """The median over the rounds, None if that was not measured."""
    found = [run[figure] for run in runs.get(who, ()) if figure in run]
    return statistics.median(found) if found else None


@dataclass
class Setting:
    """Where and how often to measure, whether to compare with peers, and which peers are missing,
    and why.
    """

    folder: Path
    rounds: int
    peers: bool = True
    quick: bool = False
    missing: dict[str, str] = field(default_factory=dict)

    def amount(self, full: int) -> int:
        return full // 10 if self.quick else full

    @contextmanager
    def beside(self, name: str, durability: str) -> Generator[node.Node | None]:
        """A fresh node of a peer, or None if that peer is not here."""
        reason = node.missing(name) if self.peers else "--no-peers"
        if reason:
            self.missing[node.TITLES[name]] = reason
            say(f"  without {node.TITLES[name]}: {reason}")
            yield None
            return
        say(f"  {node.TITLES[name]} ({durability})")
        with node.running(name, durability) as started:
            yield started
