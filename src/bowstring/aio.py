"""Bowstring for asyncio: the same names, parameters and defaults as in `bowstring`, with await before every call that waits.

```python
async with bowstring.aio.connect() as client:
    async with client.producer("orders") as producer:
        await producer.send(b"one")              # waits for durability
        producer.send(b"two")                    # does not; leaving the block does
    async for message in client.reader("orders", end="latest"):
        print(message.offset, message.text())
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.client.batch import Batch
    from bowstring.client.client import Client, connect
    from bowstring.client.consumer import Consumer
    from bowstring.client.handling import Reject
    from bowstring.client.keys import KeyReport
    from bowstring.client.lease_receipts import ExtendReceipt, LeaseBatchReceipt, LeaseReceipt
    from bowstring.client.leased_batch import LeasedBatch
    from bowstring.client.leased_message import LeasedMessage
    from bowstring.client.message import Message
    from bowstring.client.positions import Position
    from bowstring.client.producer import Producer
    from bowstring.client.reader import Reader
    from bowstring.client.receipts import Answers, BatchReceipt, Receipt, Stored
    from bowstring.client.seek import Seek
    from bowstring.client.subscriptions import Lease, Subscription
    from bowstring.client.topics import Topic
    from bowstring.embedded import AsyncBroker as Broker

__all__ = [
    "Answers",
    "Batch",
    "BatchReceipt",
    "Broker",
    "Client",
    "Consumer",
    "ExtendReceipt",
    "KeyReport",
    "Lease",
    "LeaseBatchReceipt",
    "LeaseReceipt",
    "LeasedBatch",
    "LeasedMessage",
    "Message",
    "Position",
    "Producer",
    "Reader",
    "Receipt",
    "Reject",
    "Seek",
    "Stored",
    "Subscription",
    "Topic",
    "connect",
]

_PLACES = {
    "Answers": "client.receipts",
    "Batch": "client.batch",
    "BatchReceipt": "client.receipts",
    "Broker": "embedded",
    "Client": "client.client",
    "Consumer": "client.consumer",
    "ExtendReceipt": "client.lease_receipts",
    "KeyReport": "client.keys",
    "Lease": "client.subscriptions",
    "LeaseBatchReceipt": "client.lease_receipts",
    "LeaseReceipt": "client.lease_receipts",
    "LeasedBatch": "client.leased_batch",
    "LeasedMessage": "client.leased_message",
    "Message": "client.message",
    "Position": "client.positions",
    "Producer": "client.producer",
    "Reader": "client.reader",
    "Receipt": "client.receipts",
    "Reject": "client.handling",
    "Stored": "client.receipts",
    "Seek": "client.seek",
    "Subscription": "client.subscriptions",
    "Topic": "client.topics",
    "connect": "client.client",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'bowstring.aio' has no attribute {name!r}")
    found = getattr(import_module(f"bowstring.{_PLACES[name]}"), "AsyncBroker" if name == "Broker" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
