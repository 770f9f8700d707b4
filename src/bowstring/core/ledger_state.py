"""The state of a ledger at rest: a head, and chunks of 2^20 offsets.

The head has the numbers, the consumers, the leases and the rows that are to be dead letters. A chunk
has the settled rows of its offsets, their retry counts, and how many leases on them have expired. A
capture is made at the boundary between two flushes and copies the chunks that have changed; they are
written first and the head last, as `snapshots` says.

After a crash between them, chunks are newer than the head. Replaying the journal over them comes to
the same: settled rows are a set, where the last change of a row decides, and counts say which change
they count last (`retry_counts`). Two things make sure of it. A chunk that the floor is in has a bit
for every row before the floor too, because a floor of an older head cannot tell. And a chunk that
the floor has passed stays as it is until a head at rest says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bowstring.core import offset_set
from bowstring.core.addresses import Spans
from bowstring.core.condemned import CondemnedRest
from bowstring.core.deletions import Encode
from bowstring.core.leases import Lease
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_consumers import ConsumerRest
from bowstring.core.machine import NEVER, LedgerParts, UnreadableState
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings

VERSION = 1

HEAD = 0
"""The part of the head; chunk n is part n + 1."""


class LedgerStatePart(NamedTuple):
    """Part of a ledger's state, as it was when it was captured."""

    number: int
    encode: Encode


class LeaseRest(msgspec.Struct, array_like=True, gc=False):
    number: int
    consumer: int
    granted: int
    until: int
    rows: Spans
    apart: int = 0


class LedgerHead(msgspec.Struct, array_like=True, gc=False):
    """Everything but the rows above the floor that are settled or have a retry count."""

    version: int
    name: str
    settings: SubscriptionSettings
    created: int
    ordinal: int
    floor: int
    cursor: int
    next_grant: int
    moment: int
    retained: int
    next_consumer: int
    consumers: tuple[ConsumerRest, ...]
    leases: tuple[LeaseRest, ...]
    later: tuple[bytes, bytes] = (b"", b"")
    """Rows that come again at a moment: the moments, and of each the row, as little-endian int64."""
    sought: int = 1
    condemned: tuple[CondemnedRest, ...] = ()
    lane: bool = False
    redriven: Spans = ()
    overtaken: int = 0

    @property
    def is_plain(self) -> bool:
        """It has neither leases, condemned rows nor rows that come later, and is no lane."""
        return not (self.leases or self.condemned or self.lane or self.later[0])


class _Chunk(msgspec.Struct, array_like=True, gc=False):
    ordinal: int
    """The last change that counts in it."""
    settled: bytes
    planes: list[bytes]
    later: bytes = b""
    """Rows that were not due when the cursor passed them."""
    expiries: list[bytes] = []


_encoder = msgspec.msgpack.Encoder()
_head = msgspec.msgpack.Decoder(LedgerHead)
_chunk = msgspec.msgpack.Decoder(_Chunk)


class RestingLedger(msgspec.Struct, gc=False):
    """A ledger as it was loaded, until it is needed: ten thousand partitions with ten
    subscriptions each are to be there within a second, and few of them are used at once.
    """

    head: LedgerHead | None = None
    """None if there are only chunks, which were written just before a crash."""
    sequence: int = 0
    """The flush of the head."""
    next_end: int = NEVER
    """When the next of its leases ends."""
    chunks: dict[int, bytes] | None = None

    def restore_head(self, data: bytes, sequence: int) -> None:
        """As of a flush. Raises `UnreadableState`."""
        self.head, self.sequence = decode_head(data), sequence
        if self.head.leases:
            self.next_end = min([lease.until for lease in self.head.leases])

    def restore_chunk(self, chunk: int, data: bytes) -> None:
        if self.chunks is None:
            self.chunks = {}
        self.chunks[chunk] = data

    def parts(self) -> set[int]:
        """Which rows it has in the catalog."""
        return {HEAD, *(chunk + 1 for chunk in self.chunks or ())}


class LedgerState:
    """What of a ledger is at rest, and what has to be written."""

    def __init__(self, ledger: Ledger, parts: Iterable[int] = ()) -> None:
        """There may be parts in the catalog that were written just before a crash, and no head. The
        journal still has everything then, and they are written anew.
        """
        self._ledger = ledger
        self._resting: set[int] = {part - 1 for part in parts if part != HEAD}
        """Chunks that have a row in the catalog."""
        self._passed: set[int] = set()
        """Of these, the ones that the floor had passed when the head was captured: their rows are
        of no use, and are removed if that head is at rest.
        """
        self._unwritten: set[int] = set(self._resting)
        """Chunks that were captured and could not be written."""
        self._head_is_at_rest = True
        """Whether the head that was captured last is."""
        self._resets = ledger.settled.resets
        """How often the floor had been set then."""
        self._ordinal = -1
        """The ordinal of that head."""

    @property
    def is_behind(self) -> bool:
        """Whether a capture would change what is at rest."""
        return self._ordinal != self._ledger.ordinal or not self._head_is_at_rest or bool(self._unwritten or self._passed)

    def parts(self) -> set[int]:
        """The rows that it may have in the catalog."""
        return {HEAD, *(chunk + 1 for chunk in self._resting)}

    def capture(self) -> list[LedgerStatePart]:
        """Chunks that have changed, and at last the head. They count as written from here on."""
        ledger = self._ledger
        changed = ledger.settled.above.changed | ledger.counts.changed | ledger.later.changed | ledger.expiries.changed | self._unwritten
        if ledger.settled.resets != self._resets:
            changed |= self._resting  # they may have rows below a floor that has fallen since
        ahead = {chunk for chunk in changed if _end(chunk) > ledger.floor}
        removed = self._passed - ahead if self._head_is_at_rest else set[int]()
        parts = [LedgerStatePart(chunk + 1, bytes) for chunk in sorted(removed)]
        parts += [LedgerStatePart(chunk + 1, _capture_chunk(ledger, chunk)) for chunk in sorted(ahead)]
        self._resting = (self._resting | ahead) - removed
        self._passed = {chunk for chunk in self._resting if _end(chunk) <= ledger.floor}
        self._unwritten, self._head_is_at_rest, self._resets = set(), True, ledger.settled.resets
        self._ordinal = ledger.ordinal
        ledger.settled.above.changed = set()
        ledger.later.changed = set()
        ledger.counts.captured()
        ledger.expiries.captured()
        return [*parts, LedgerStatePart(HEAD, _capture_head(ledger))]

    def put_back(self, parts: Iterable[int]) -> None:
        """These were captured and are not in the catalog: they come with the next capture."""
        for part in parts:
            if part == HEAD:
                self._head_is_at_rest = False
            else:
                self._unwritten.add(part - 1)
                self._resting.add(part - 1)

    def load(self, parts: LedgerParts) -> None:
        """At load, before the journal is replayed. Raises `UnreadableState`."""
        self._load(decode_head(parts.head), parts.chunks, parts.sequence)

    def wake(self, resting: RestingLedger) -> None:
        """The same, of a ledger whose rows were read before."""
        assert resting.head is not None
        self._load(resting.head, resting.chunks or {}, resting.sequence)

    def _load(self, head: LedgerHead, chunks: dict[int, bytes], sequence: int) -> None:
        self._resting = set(chunks)
        _restore(self._ledger, head, chunks, sequence)
        self._resets, self._ordinal = self._ledger.settled.resets, head.ordinal
        self._passed = {chunk for chunk in self._resting if _end(chunk) <= head.floor}


def snapshot(ledger: Ledger) -> LedgerParts:
    """The whole state as it is."""
    numbers = {*ledger.settled.above.chunk_numbers(), *ledger.counts.chunk_numbers(), *ledger.later.chunk_numbers()}
    numbers |= set(ledger.expiries.chunk_numbers())
    chunks = {chunk: _capture_chunk(ledger, chunk)() for chunk in numbers}
    return LedgerParts(_capture_head(ledger)(), chunks, ledger.snapshot_sequence)


def restore(ledger: Ledger, parts: LedgerParts) -> None:
    """The state as it was at rest; chunks may be newer than the head. Raises `UnreadableState`."""
    _restore(ledger, decode_head(parts.head), parts.chunks, parts.sequence)


def decode_head(data: bytes) -> LedgerHead:
    """Raises `UnreadableState`."""
    try:
        head = _head.decode(data)
    except msgspec.DecodeError as error:
        raise UnreadableState(f"the head of a ledger cannot be read: {error}") from error
    if head.version != VERSION:
        raise UnreadableState(f"a ledger has version {head.version}, this release reads {VERSION}")
    return head


def _restore(ledger: Ledger, head: LedgerHead, chunks: dict[int, bytes], sequence: int) -> None:
    try:
        _restore_head(ledger, head)
        for chunk, data in chunks.items():
            if data and _end(chunk) > head.floor:
                _restore_chunk(ledger, chunk, _chunk.decode(data))
    except (msgspec.DecodeError, ValueError) as error:
        raise UnreadableState(f"a ledger cannot be read: {error}") from error
    ledger.settled.rise()
    ledger.snapshot_sequence = sequence
    ledger.forget_returned()


def _end(chunk: int) -> int:
    return (chunk + 1) << offset_set.CHUNK_BITS


def _capture_head(ledger: Ledger) -> Encode:
    numbers = ledger.ordinal, ledger.floor, ledger.cursor, ledger.next_grant, ledger.moment, ledger.retained
    subscription = ledger.name, ledger.settings, ledger.created
    consumers = ledger.consumers.next_number, tuple(ledger.consumers.rest())
    sought = ledger.sought
    leases = [((lease.number, lease.consumer, lease.granted, lease.until), lease.rows, lease.apart) for lease in ledger.leases]
    moments, offsets = ledger.timeline.arrays()
    condemned, redriven, lane, overtaken = tuple(ledger.condemned.rest()), ledger.redriven.rows(), ledger.lane, ledger.overtaken

    def encode() -> bytes:
        rest = tuple(LeaseRest(*facts, rows.spans(), apart) for facts, rows, apart in leases)
        later = moments.astype("<i8").tobytes(), offsets.astype("<i8").tobytes()
        letters = condemned, lane, redriven.spans(), overtaken
        return _encoder.encode(LedgerHead(VERSION, *subscription, *numbers, *consumers, rest, later, sought, *letters))

    return encode


def _restore_head(ledger: Ledger, head: LedgerHead) -> None:
    ledger.name, ledger.settings, ledger.created = head.name, head.settings, head.created
    ledger.ordinal, ledger.cursor, ledger.next_grant = head.ordinal, head.cursor, head.next_grant
    ledger.moment, ledger.retained, ledger.sought = head.moment, head.retained, head.sought
    ledger.settled.reset(head.floor)
    ledger.consumers.restore(head.consumers, head.next_consumer)
    ledger.timeline.load(*head.later)
    for lease in head.leases:
        ledger.leases.add(Lease(lease.number, lease.consumer, lease.granted, lease.until, RowSet.of_spans(lease.rows), lease.apart))
    ledger.condemned.restore(head.condemned)
    ledger.lane, ledger.overtaken = head.lane, head.overtaken
    if head.redriven:
        ledger.redriven.put(RowSet.of_spans(head.redriven))


def _capture_chunk(ledger: Ledger, chunk: int) -> Encode:
    settled, planes, ordinal = ledger.settled.above.copy(chunk), ledger.counts.copy(chunk), ledger.ordinal
    later, expiries = ledger.later.copy(chunk), ledger.expiries.copy(chunk)
    below = ledger.floor - (chunk << offset_set.CHUNK_BITS)
    if below > 0:
        settled.add_range(0, below)
    if not settled and not planes and not later and not expiries:
        return bytes
    return lambda: _encoder.encode(
        _Chunk(
            ordinal,
            settled.serialize(),
            [plane.serialize() for plane in planes],
            later.serialize() if later else b"",
            [plane.serialize() for plane in expiries],
        )
    )


def _restore_chunk(ledger: Ledger, chunk: int, rest: _Chunk) -> None:
    ledger.settled.above.load(chunk, rest.settled)
    ledger.counts.load(chunk, rest.planes, rest.ordinal)
    ledger.later.load(chunk, rest.later)
    ledger.expiries.load(chunk, rest.expiries, rest.ordinal)
