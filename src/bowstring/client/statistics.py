"""The frozen values that `client.info` and `statistics()` of client, producer, reader and consumer return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bowstring.client.sent_batch import SentBatch


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker as it introduced itself."""

    address: str
    """host:port or unix:path; grpc://host:port if the client speaks gRPC."""
    software: str
    protocol: int
    incarnation: int
    """Rises with every start of the broker."""


@dataclass(frozen=True, slots=True)
class Info:
    """What a client knows of its brokers."""

    brokers: tuple[BrokerInfo, ...]
    cluster: str
    """Names the data, the same after a restart."""
    software: str
    """This kit's own name and version."""
    drift: float
    """Seconds by which this machine's clock is ahead of the brokers'."""


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """A producer since it was made."""

    messages: int
    """Stored."""
    bytes: int
    """Of batches that were stored, as gathered."""
    batches: int
    refused: int
    """Messages that were refused, came too late or whose outcome is unknown."""
    resent: int
    """Batches that were written again."""
    bytes_under_way: int


@dataclass(frozen=True, slots=True)
class ReaderStatistics:
    """A reader since it was made."""

    messages: int
    """Handed out."""
    bytes: int
    """Of the batches received."""
    batches: int
    """Received."""
    bytes_ahead: int
    """Received and not handed out yet."""
    connections: int
    """Streams opened: one, and one more for each break."""
    dropped: int
    """Messages that had come and were not handed out, because they had expired, grown too old or
    been deleted by then.
    """


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """A consumer since it was made."""

    messages: int
    """Handed out."""
    bytes: int
    """Received."""
    batches: int
    """Received."""
    acked: int
    nacked: int
    """Those that were given back when the consumer was closed among them."""
    rejected: int
    released: int
    """Given back unseen: that does not count as a delivery."""
    lost: int
    """Messages whose lease had ended, or was taken away, before they were settled."""
    held: int
    """Received and not settled."""
    ahead: int
    """Of these, not handed out yet."""
    credit: int
    """How many it may hold; 0 while it pauses."""
    connections: int
    """Streams opened: one, and one more for each break."""


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """A client since it was made."""

    producers: int
    """Open now."""
    readers: int
    consumers: int
    drift: float


class ProducerCounts:
    """Counters of the loop's half of a producer."""

    __slots__ = ("batches", "bytes", "messages", "refused", "resent")

    def __init__(self) -> None:
        self.messages = self.bytes = self.batches = self.refused = self.resent = 0

    def stored(self, batch: SentBatch) -> None:
        """A batch was stored."""
        self.messages += batch.rows
        self.bytes += batch.size
        self.batches += 1

    def frozen(self, bytes_under_way: int) -> ProducerStatistics:
        """The counters now."""
        return ProducerStatistics(self.messages, self.bytes, self.batches, self.refused, self.resent, bytes_under_way)
