"""A broker put together from its ports. `bowstring.server` does it on the real machine, the simulation in a simulated one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bowstring.broker.broker import Broker
from bowstring.broker.tuning import Tuning
from bowstring.broker.witness import UNWITNESSED, Witness
from bowstring.gateway.gateway import Gateway
from bowstring.ports.archive import Archive
from bowstring.ports.catalog import Catalog
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Disk
from bowstring.ports.events import UNOBSERVED, Observer
from bowstring.ports.store import Store
from bowstring.settings import Settings
from bowstring.store.local import LocalStore
from bowstring.store.memory import MemoryStore
from bowstring.store.reserve import Reserve


class Assembled(NamedTuple):
    """A broker that is not started yet, and the handler of its calls."""

    broker: Broker
    gateway: Gateway


def assemble(
    settings: Settings,
    *,
    clock: Clock,
    catalog: Catalog,
    disk: Disk | None,
    archives: Callable[[str], Archive] | None = None,
    observer: Observer = UNOBSERVED,
    witness: Witness = UNWITNESSED,
    tuning: Tuning | None = None,
    number: int = 1,
    reclaims: bool = True,
    starts_again: bool = True,
    software: str = "bowstring",
) -> Assembled:
    """Without a disk everything is kept in memory."""
    tuning = tuning or Tuning()
    broker = Broker(
        settings=settings,
        clock=clock,
        catalog=catalog,
        store=_store(settings, tuning, disk, clock),
        reserve=None if disk is None else Reserve(disk, tuning.reserve_bytes),
        archives=archives,
        observer=observer,
        witness=witness,
        tuning=tuning,
        number=number,
        reclaims=reclaims,
        starts_again=starts_again,
    )
    return Assembled(broker, Gateway(broker, settings, broker.clock, software=software, observer=observer))


def _store(settings: Settings, tuning: Tuning, disk: Disk | None, clock: Clock) -> Store:
    if disk is None:
        return MemoryStore()
    return LocalStore(
        disk,
        segment_bytes_first=settings.segment_bytes_first,
        segment_bytes_max=settings.segment_bytes_max,
        free_files_max=tuning.free_files_max,
        shared=tuning.shared_directory,
        clock=clock,
    )
