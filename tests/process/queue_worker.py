"""A worker of a queue as a process of its own, to be killed: it writes what it gets and what it settles to stdout, a JSON object a line.

    python -m tests.process.queue_worker ADDRESS TOPIC SUBSCRIPTION NAME

A line "got" comes before the message is worked on, "acking" or "nacking" before it is settled, "acked" when the broker has answered.
Moments are those of the machine's monotonic clock, which all processes share. The worker ends when its stdin does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress

import bowstring
from bowstring import errors

LEASE_SECONDS = 1.0
GATHERED = 10
"""So many messages are settled before the worker waits for the answers."""


def tell(kind: str, rows: list[tuple[int, int]], **more: object) -> None:
    """One line, in one write: a killed worker leaves no half of it."""
    os.write(1, (json.dumps({"kind": kind, "at": time.monotonic(), "rows": rows, **more}) + "\n").encode())


def settle(gathered: list[tuple[bowstring.LeasedMessage, bool]]) -> None:
    """Acks or nacks messages, and tells which acks the broker has answered."""
    tell("acking", [(message.partition, message.offset) for message, good in gathered if good])
    tell("nacking", [(message.partition, message.offset) for message, good in gathered if not good])
    for message, good, receipt in [(message, good, message.ack() if good else message.nack()) for message, good in gathered]:
        with suppress(errors.LeaseLost):
            receipt.result(timeout=30)
            if good:
                tell("acked", [(message.partition, message.offset)])


def main(address: str, topic: str, subscription: str, name: str) -> None:
    with bowstring.connect(address, timeout=30) as client, client.consumer(topic, subscription, name=name, lease=LEASE_SECONDS) as consumer:
        threading.Thread(target=lambda: (sys.stdin.read(), consumer.close()), daemon=True).start()
        gathered: list[tuple[bowstring.LeasedMessage, bool]] = []
        for message in consumer:
            tell("got", [(message.partition, message.offset)], retry_count=message.retry_count, name=name)
            gathered.append((message, (message.offset + message.retry_count) % 7 != 0))
            if len(gathered) >= GATHERED or consumer.statistics().ahead == 0:
                settle(gathered)
                gathered.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
