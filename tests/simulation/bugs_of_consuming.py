"""Planted bugs of a consumer's kit: what it hands out, what it says to the broker, and what it tells
its application.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any
from unittest.mock import patch

from bowstring.client import consumer, consumption
from bowstring.client.consumption import Consumption
from bowstring.client.deliveries import Deliveries
from bowstring.client.lease_marks import NACK
from bowstring.client.pages import Chunk
from bowstring.client.settlements import Settlements
from tests.simulation.planting import CALM, CUTS, QUEUE, bug

KIT = QUEUE.only(plain_consumers=0.0)
OFTEN = CUTS.only(cut_every=0.3)
SILENT = OFTEN.only(half_open=0.5, half_open_seconds=2.0)

# ---- what it hands out -------------------------------------------------------------------------------------------------


@bug(OFTEN, KIT.only(named_consumers=1.0, consume_seconds=8.0, work_seconds=0.02))
def the_kit_hands_out_what_it_holds() -> Generator[None]:
    """Rows that come again after a break are new to it, whatever it has of them."""
    with patch.object(Consumption, "_not_held", lambda self, lease, page: [Chunk(page, 0, page.rows)]):
        yield


@bug(SILENT, KIT.only(named_consumers=1.0, work_seconds=0.2, consume_seconds=8.0))
def the_kit_hands_out_rows_whose_lease_has_ended() -> Generator[None]:
    """It does not look at the clock: only the broker says what is lost."""

    def only_told(self: Deliveries, chunk: Chunk) -> bool:
        page: Any = chunk.page
        return self.error is not None or page.has_lost

    with patch.object(Deliveries, "doubts", only_told):
        yield


@bug(SILENT, KIT.only(named_consumers=1.0, work_seconds=0.2, consume_seconds=8.0))
def leases_that_are_told_to_be_lost_stay() -> Generator[None]:
    """The broker says what the consumer does not have any more, and the kit does not listen."""
    with (
        patch.object(Consumption, "_lose", lambda self, told: None),
        patch.object(Deliveries, "doubts", lambda self, chunk: self.error is not None),
    ):
        yield


# ---- what it says ------------------------------------------------------------------------------------------------------


@bug(CALM, KIT.only(abandons=0.0, consume_seconds=0.5, work_seconds=0.1))
def a_prefetched_row_counts_as_seen() -> Generator[None]:
    """Rows that were not handed out when the consumer is closed are nacked like the others."""

    def nacked(chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            page: Any = chunk.page
            page.mark(chunk.first, chunk.rows, NACK)

    with patch.object(consumer, "release", nacked), patch.object(consumption, "release", nacked):
        yield


@bug(CALM, KIT.only(abandons=0.0, consume_seconds=0.5, work_seconds=0.1, holds=0.5))
def a_consumer_leaves_with_rows_that_its_application_has() -> Generator[None]:
    """It says that it has settled everything, and its broker gives back what it has, uncounted."""
    with (
        patch.object(Consumption, "abandon", lambda self: None),
        patch.object(Consumption, "pages", lambda self: []),
    ):
        yield


@bug(CALM, KIT.only(named_consumers=1.0, consume_seconds=0.5, abandons=0.3))
def a_new_consumer_under_an_old_name_counts_its_requests_from_one() -> Generator[None]:
    """Its first requests are repeats to the broker, which answers as it did the first time."""
    with patch.object(Settlements, "told", lambda self, last_requests: None):
        yield


# ---- what it tells -----------------------------------------------------------------------------------------------------


@bug(CALM, KIT.only(holds=0.6, consume_seconds=8.0))
def a_refused_ack_is_told_to_be_done() -> Generator[None]:
    """The answer has come, and nobody looks at the rows that it refuses."""
    with patch.object(Settlements, "_refuse", lambda self, part, told, now: None):
        yield
