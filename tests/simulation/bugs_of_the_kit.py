"""Planted bugs of the kit: what a producer tells its application, and what it makes of a break."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring import errors
from bowstring.client import receipts
from bowstring.client.open_batch import OpenBatch
from bowstring.client.open_batches import OpenBatches
from bowstring.client.outbox import Outbox
from bowstring.client.outcome import StoredRows
from bowstring.client.publish_stream import PublishStream
from bowstring.client.read_ahead import ReadAhead
from bowstring.client.sent_batch import GatheredRows, SentBatch
from bowstring.client.unrouted import Placeholder
from bowstring.ports.calls import CALLS
from tests.simulation.planting import CALM, CRASHES, CUTS, HURRY, IDS, JOURNAL, READING, SLOW, bug

SENDING = JOURNAL.only(plain=0.0, producers=3, readers=1, pause_seconds=0.02, under_way_max=60)

# ---- order and resends -------------------------------------------------------------------------------------------------


@bug(CUTS, SENDING.only(natural=0.0))
def a_resend_has_new_numbers() -> Generator[None]:
    """After a break batches are written again under other numbers, so the broker does not recognise what it has."""
    broken = PublishStream._broken

    def renumbered(self: PublishStream) -> None:
        for lane in self._outbox._lanes.values():
            batches, lane.unanswered = list(lane.unanswered.values()), {}
            for batch in batches:
                batch.number = self._outbox._open_batches._next_number()
                lane.unanswered[batch.number] = batch
        broken(self)

    with patch.object(PublishStream, "_broken", renumbered):
        yield


@bug(CUTS, SENDING.only(natural=0.0))
def a_resent_batch_takes_another_lane() -> Generator[None]:
    """After a break batches are routed anew, to another partition than the one that may have stored them."""
    broken = PublishStream._broken

    def rerouted(self: PublishStream) -> None:
        outbox = self._outbox
        for batch in outbox.unanswered(self):
            del outbox.lane(batch.partition).unanswered[batch.number]
            batch.partition = (batch.partition + 1) % len(outbox._open_batches.batches)
            outbox.lane(batch.partition).unanswered[batch.number] = batch
        for lane in outbox._lanes.values():
            lane.unanswered = dict(sorted(lane.unanswered.items()))
        broken(self)

    with patch.object(PublishStream, "_broken", rerouted):
        yield


@bug(CALM, SENDING.only(natural=0.0, batches=0.0))
def an_open_batch_that_is_sealed_twice_is_sent_twice() -> Generator[None]:
    """Nobody looks whether a batch is sealed already: its rows go out again, under the next number."""
    seal = OpenBatches._seal

    def twice(self: OpenBatches, batch: OpenBatch) -> None:
        seal(self, batch)
        sent = self.inbox[-1]
        if sent.number % 16 == 0 and isinstance(sent.content, GatheredRows):
            again = SentBatch(sent.producer, sent.partition, self._next_number(), sent.term, sent.content, sent.size, sent.given_ids)
            self.bytes_under_way += again.reserved
            self._hand_over(again)

    with patch.object(OpenBatches, "_seal", twice):
        yield


@bug(CALM.only(delay_seconds=0.05), SENDING.only(keyed=1.0, pause_seconds=0.005, large=0.0))
def what_waits_for_partitions_is_sent_backwards() -> Generator[None]:
    """Messages that waited until the topic was described go out in the wrong order, under numbers that are right."""
    know = OpenBatches.know_partitions

    def backwards(self: OpenBatches, partitions: int) -> list[Placeholder]:
        self._unrouted.reverse()
        return know(self, partitions)

    with patch.object(OpenBatches, "know_partitions", backwards):
        yield


# ---- receipts ----------------------------------------------------------------------------------------------------------


@bug(CRASHES, SENDING.only(natural=0.0))
def a_receipt_is_good_when_its_batch_is_written() -> Generator[None]:
    """The kit counts offsets itself and does not wait for the answer."""
    ends: dict[tuple[int, int], int] = {}
    write, answered = PublishStream._message, Outbox.answered

    def eager(self: PublishStream, batch: SentBatch) -> Any:
        message = write(self, batch)
        end = ends.get((id(self), batch.partition))
        if message is not None and end is not None:
            ends[id(self), batch.partition] = end + batch.rows
            self._outbox.lane(batch.partition).stored(batch)
            self._outbox._decide(batch, StoredRows(end))
        return message

    def counting(self: Outbox, stream: PublishStream, answer: Any) -> None:
        if answer.WhichOneof("outcome") == "stored":
            ends.setdefault((id(stream), answer.partition), answer.stored.first_offset + answer.stored.rows)
        answered(self, stream, answer)

    with patch.object(PublishStream, "_message", eager), patch.object(Outbox, "answered", counting):
        yield


@bug(SLOW.only(slow_rate=0.1), HURRY.only(plain=0.0))
def a_late_answer_counts_as_not_stored() -> Generator[None]:
    """When the timeout is over, what was written and not answered is told to be certainly not stored."""

    def certain(self: Outbox, batch: SentBatch) -> None:
        self.give_up(batch, errors.DeadlinePassed("the timeout has passed."))

    with patch.object(Outbox, "_late", certain):
        yield


@bug(CUTS.only(turn_away_rate=0.3), SENDING.only(seconds=4.0))
def a_refused_stream_speaks_for_the_streams_before_it() -> Generator[None]:
    """The last stream is refused, and so everything that was written to it is told to be refused: also what an earlier one has stored."""
    refuse = Outbox.refuse

    def certain(self: Outbox, error: errors.Error, stream: PublishStream | None = None, number: int = 0) -> None:
        for batch in self.unanswered():
            batch.first_stream = batch.stream
        refuse(self, error, stream, number)

    with patch.object(Outbox, "refuse", certain):
        yield


@bug(CUTS.only(half_open=1.0, half_open_seconds=6.0), SENDING.only(seconds=8.0, tight=0.8, tight_seconds=0.5))
def no_answer_in_the_end_counts_as_not_stored() -> Generator[None]:
    """The kit has asked again, got no answer, and takes that for a no."""

    def certain(self: Outbox, batch: SentBatch) -> None:
        self.give_up(batch, errors.DeadlinePassed("the timeout has passed."))

    with patch.object(Outbox, "_lose", certain):
        yield


@bug(CRASHES.only(crash_every=0.5, down_seconds=1.0), SENDING.only(seconds=8.0, tight=0.8, tight_seconds=0.3))
def a_broken_stream_is_forgotten() -> Generator[None]:
    """After a break everything counts as never written, so its timeout means "not stored"."""
    broken = PublishStream._broken

    def forgotten(self: PublishStream) -> None:
        for batch in self._outbox.unanswered():
            batch.first_stream = 0
        broken(self)

    with patch.object(PublishStream, "_broken", forgotten):
        yield


@bug(CALM, IDS.only(plain=0.0, batches=0.8))
def rows_behind_a_duplicate_are_told_offsets_too_high() -> Generator[None]:
    """Repeats take no offset, and the kit counts them all the same."""

    def of(self: StoredRows, row: int) -> tuple[int, bool]:
        for first, rows, offset in self.repeats:
            if first <= row < first + rows:
                return offset + row - first, True
        return self.first_offset + row, False

    def offsets(self: StoredRows, rows: int) -> Any:
        return [self.of(row)[0] for row in range(rows)]

    with patch.object(StoredRows, "of", of), patch.object(StoredRows, "offsets", offsets):
        yield


@bug(CALM, IDS.only(plain=0.0, natural=0.5))
def duplicates_are_told_to_be_new() -> Generator[None]:
    """The offset is that of the first one, and nobody says so."""
    of, repeated = StoredRows.of, StoredRows.repeated

    def new(self: StoredRows, row: int) -> tuple[int, bool]:
        return of(self, row)[0], False

    with patch.object(StoredRows, "of", new), patch.object(StoredRows, "repeated", lambda self, rows: repeated(self, rows) & False):
        yield


# ---- calls -------------------------------------------------------------------------------------------------------------


@bug(CUTS.only(cut_rate=0.05), READING.only(forgets=0.5, seconds=8.0))
def a_repeated_call_is_treated_as_new() -> Generator[None]:
    """The answer to a delete is lost, the kit asks again, and hands the broker's "there is none" to its caller."""
    with patch.dict(CALLS, {name: call._replace(done=None) for name, call in CALLS.items()}):
        yield


# ---- what an application does not look at --------------------------------------------------------------------------------


@bug(SLOW.only(slow_rate=0.1), HURRY.only(plain=0.0, ignored=0.7, natural=0.0))
def failures_are_swallowed_by_flush_and_close() -> Generator[None]:
    """What failed and was not looked at is forgotten."""
    with patch.object(receipts, "unseen", lambda topic, failed: None):
        yield


@bug(SLOW.only(slow_rate=0.1), HURRY.only(plain=0.0, ignored=0.7, natural=0.0))
def flush_does_not_wait_for_answers() -> Generator[None]:
    """It is enough for it that everything is written."""

    async def hasty(self: Outbox) -> None:
        self._open_batches.seal_all()
        self.work()

    with patch.object(Outbox, "flush", hasty):
        yield


@bug(SLOW, SENDING.only(large=0.8, large_bytes=60_000, batches=0.0))
def whoever_waits_for_room_is_not_woken() -> Generator[None]:
    """An answer makes room, and nobody is told."""
    make = Outbox.__init__

    def deaf(self: Outbox, *arguments: Any) -> None:
        make(self, *arguments)
        self._room.set = lambda: None

    with patch.object(Outbox, "__init__", deaf):
        yield


@bug(CUTS, READING)
def whoever_waits_for_a_reader_that_is_closed_is_not_woken() -> Generator[None]:
    """Closing ends the streams, and nobody is told."""

    async def silent(self: ReadAhead) -> None:
        for stream in self._streams.values():
            await stream.close()

    with patch.object(ReadAhead, "close", silent):
        yield
