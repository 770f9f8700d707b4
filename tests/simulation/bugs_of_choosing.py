"""Planted bugs of subscriptions that choose: filters, and seeks."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring.broker.queue import granter, scouted_rows
from bowstring.broker.queue.lease_requests import SkipRows
from bowstring.broker.queue.scout import Scout
from bowstring.broker.reading import sifted_pages
from bowstring.broker.reading.selection import Selection
from bowstring.core import granting
from bowstring.core.granting import ChosenRows
from bowstring.core.leases import Leases
from bowstring.core.ledger import Ledger
from bowstring.core.pages import PageEntry
from bowstring.core.row_set import RowSet
from bowstring.core.settled_rows import SettledRows
from tests.simulation.planting import CALM, QUEUE, bug

CHOOSING = QUEUE.only(chosen=1, attributed=0.4)
SEEKING = QUEUE.only(seek_every=0.7, holds=0.5, lease_seconds=5.0)


@bug(CALM, CHOOSING.only(credit_max=5))
def passed_rows_are_lost_between_two_grants() -> Generator[None]:
    """A grant that takes some of the rows that were found settles the others with those that are left out."""
    original = granting.choose

    def choose(ledger: Ledger, eligible: Any, scouted: int, most: int, now: int = 0) -> ChosenRows:
        chosen = original(ledger, eligible, scouted, most, now)
        if chosen.upto <= ledger.cursor:
            return chosen
        return chosen._replace(upto=scouted, skipped=RowSet(ledger.cursor, scouted) - chosen.rows)

    with patch.object(granter, "choose", choose):
        yield


@bug(CALM, CHOOSING)
def a_skip_passes_rows_that_were_found() -> Generator[None]:
    """The cursor goes to the end of what was looked at, and not to the first row that passes."""

    def skip(self: Scout, actor: Any, ledger: Ledger, ahead: Any) -> None:
        if ahead.end > ledger.cursor and not ahead.task:
            actor.receive(SkipRows(self._subscription, self._clock.now, ledger.cursor, ahead.end))
            ahead.pass_below(ahead.end)

    with patch.object(Scout, "_skip", skip):
        yield


@bug(CALM, CHOOSING)
def a_page_passes_if_one_of_its_rows_does() -> Generator[None]:
    """Its other rows come along."""
    original = Selection.passing

    def passing(self: Selection, entry: Any, header: Any, batch: Any, offsets: Any, *numbers: Any) -> Any:
        found = original(self, entry, header, batch, offsets, *numbers)
        return offsets if len(found) else np.empty(0, np.int64)

    with patch.object(Selection, "passing", passing):
        yield


@bug(CALM, CHOOSING)
def a_page_that_was_sifted_stands_for_any_of_its_rows() -> Generator[None]:
    """Rows that another filter has let pass are delivered in place of those that were granted."""
    with patch.object(sifted_pages, "has_all", lambda page, offsets: True):
        yield


@bug(CALM, CHOOSING)
def a_sifted_page_has_the_next_rows() -> Generator[None]:
    """It has the rows that stand behind those which pass."""
    original = sifted_pages.sift

    def sift(entry: PageEntry, header: bytes, batch: Any, offsets: Any) -> Any:
        page = original(entry, header, batch, entry.first_offset + (offsets + 1 - entry.first_offset) % entry.rows)
        if page is not None:
            page.offsets = offsets
        return page

    with patch.object(scouted_rows, "sift", sift):
        yield


@bug(CALM, SEEKING)
def a_seek_leaves_leases_valid() -> Generator[None]:
    """Consumers go on with what they hold, and what they ack does not come again."""
    with patch.object(Leases, "clear", lambda self: None), patch.object(Ledger, "check", lambda self: None):
        yield


@bug(CALM, SEEKING)
def a_seek_back_has_nothing_come_again() -> Generator[None]:
    """The cursor goes back, and what is settled stays settled."""

    def reset(self: SettledRows, offset: int) -> None:
        self.floor = max(self.floor, offset)
        self.resets += 1

    with patch.object(SettledRows, "reset", reset), patch.object(Ledger, "check", lambda self: None):
        yield
