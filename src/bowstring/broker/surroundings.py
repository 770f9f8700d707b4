"""The ports and values that one broker is given, and that all its incarnations share."""

from __future__ import annotations

from typing import NamedTuple

from bowstring.broker.counters import Counters
from bowstring.broker.shortage import Shortage
from bowstring.broker.steady_clock import SteadyClock
from bowstring.broker.tuning import Tuning
from bowstring.broker.witness import Witness
from bowstring.ports.catalog import Catalog
from bowstring.ports.events import Observer
from bowstring.ports.store import Store
from bowstring.settings import Settings
from bowstring.store.reserve import Reserve


class Surroundings(NamedTuple):
    """Everything outside an incarnation. Rooms take from it what they use."""

    number: int
    """The broker's number in its catalog. The node that registers it last serves it."""
    settings: Settings
    clock: SteadyClock
    catalog: Catalog
    store: Store
    reserve: Reserve | None
    """Space for the catalog on a disk that can be full."""
    observer: Observer
    shortage: Shortage
    counters: Counters
    witness: Witness
    tuning: Tuning
