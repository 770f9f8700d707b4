"""What tests of consumers do again and again."""

from __future__ import annotations

from typing import Any

from bowstring.client.client import Client
from bowstring.client.leased_message import LeasedMessage


async def filled(client: Client, topic: str, rows: int, per_batch: int = 3, first: int = 0) -> None:
    """Sends messages that are numbered."""
    async with client.producer(topic) as producer:
        for start in range(first, first + rows, per_batch):
            await producer.send_batch([b"%d" % number for number in range(start, min(first + rows, start + per_batch))])


async def taken(consumer: Any, count: int) -> list[LeasedMessage]:
    """The next messages of a consumer; fewer if it is closed."""
    found: list[LeasedMessage] = []
    async for message in consumer:
        found.append(message)
        if len(found) == count:
            break
    return found
