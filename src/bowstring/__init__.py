"""Bowstring: a message broker whose messages are Arrow batches.

```python
import bowstring
with bowstring.connect() as client:
    client.create_topic("orders", exists_ok=True)
    with client.producer("orders") as producer:
        producer.send(b"one", key="customer-42")
    for message in client.reader("orders", end="latest"):
        print(message.offset, message.key, message.text())
```

This is the public face. Names outside `__all__` here and in `bowstring.aio` are private. Importing
it loads neither broker, pyarrow nor grpc: each name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bowstring.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    DeadlinePassed,
    Error,
    Full,
    InvalidArgument,
    Leased,
    LeaseLost,
    LeaseTaken,
    LoginRequired,
    Merged,
    MessageNotFound,
    NameInUse,
    NotAuthorised,
    NotFound,
    NotSupported,
    OutcomeUnknown,
    OutOfRange,
    PartlyRefused,
    QuotaExceeded,
    Rejected,
    SubscriptionExists,
    SubscriptionNotFound,
    TooLarge,
    TopicExists,
    TopicNotFound,
    TransactionEnded,
    TransactionNotFound,
    Unavailable,
)
from bowstring.version import VERSION

if TYPE_CHECKING:
    from bowstring import aio, spark
    from bowstring.client.batch import Batch
    from bowstring.client.handling import Reject
    from bowstring.client.keys import KeyReport
    from bowstring.client.leased_batch import LeasedBatch
    from bowstring.client.leased_message import LeasedMessage
    from bowstring.client.message import Message
    from bowstring.client.positions import Position
    from bowstring.client.receipts import Answers, Stored
    from bowstring.client.seek import Seek
    from bowstring.client.subscriptions import Lease, Subscription
    from bowstring.client.sync import Client, connect
    from bowstring.client.sync_consumer import Consumer, ExtendReceipt, LeaseBatchReceipt, LeaseReceipt
    from bowstring.client.sync_producer import BatchReceipt, Producer, Receipt
    from bowstring.client.sync_reader import Reader
    from bowstring.client.topics import Topic
    from bowstring.embedded import Broker

__all__ = [
    "AlreadyExists",
    "Answers",
    "Batch",
    "BatchReceipt",
    "Broker",
    "Client",
    "Conflict",
    "Consumer",
    "Corrupt",
    "DeadlinePassed",
    "Error",
    "ExtendReceipt",
    "Full",
    "InvalidArgument",
    "KeyReport",
    "Lease",
    "LeaseBatchReceipt",
    "LeaseLost",
    "LeaseReceipt",
    "LeaseTaken",
    "Leased",
    "LeasedBatch",
    "LeasedMessage",
    "LoginRequired",
    "Merged",
    "Message",
    "MessageNotFound",
    "NameInUse",
    "NotAuthorised",
    "NotFound",
    "NotSupported",
    "OutOfRange",
    "OutcomeUnknown",
    "PartlyRefused",
    "Position",
    "Producer",
    "QuotaExceeded",
    "Reader",
    "Receipt",
    "Reject",
    "Rejected",
    "Seek",
    "Stored",
    "Subscription",
    "SubscriptionExists",
    "SubscriptionNotFound",
    "TooLarge",
    "Topic",
    "TopicExists",
    "TopicNotFound",
    "TransactionEnded",
    "TransactionNotFound",
    "Unavailable",
    "aio",
    "connect",
    "spark",
]

__version__ = VERSION

_PLACES = {
    "Answers": "client.receipts",
    "Batch": "client.batch",
    "BatchReceipt": "client.sync_producer",
    "Broker": "embedded",
    "Client": "client.sync",
    "Consumer": "client.sync_consumer",
    "ExtendReceipt": "client.sync_consumer",
    "KeyReport": "client.keys",
    "Lease": "client.subscriptions",
    "LeaseBatchReceipt": "client.sync_consumer",
    "LeaseReceipt": "client.sync_consumer",
    "LeasedBatch": "client.leased_batch",
    "LeasedMessage": "client.leased_message",
    "Message": "client.message",
    "Position": "client.positions",
    "Producer": "client.sync_producer",
    "Reader": "client.sync_reader",
    "Receipt": "client.sync_producer",
    "Reject": "client.handling",
    "Stored": "client.receipts",
    "Seek": "client.seek",
    "Subscription": "client.subscriptions",
    "Topic": "client.topics",
    "connect": "client.sync",
}


def __getattr__(name: str) -> Any:
    if name in ("aio", "spark"):
        return import_module(f"bowstring.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'bowstring' has no attribute {name!r}")
    found = getattr(import_module(f"bowstring.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
