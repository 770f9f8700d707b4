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

from bowstring.client.batch import Batch
from bowstring.client.client import Client, connect
from bowstring.client.message import Message
from bowstring.client.positions import Position
from bowstring.client.producer import Producer
from bowstring.client.reader import Reader
from bowstring.client.receipts import Answers, BatchReceipt, Receipt, Stored
from bowstring.client.topics import Topic
from bowstring.embedded import AsyncBroker as Broker

__all__ = [
    "Answers",
    "Batch",
    "BatchReceipt",
    "Broker",
    "Client",
    "Message",
    "Position",
    "Producer",
    "Reader",
    "Receipt",
    "Stored",
    "Topic",
    "connect",
]
