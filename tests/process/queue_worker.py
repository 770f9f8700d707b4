"""A worker of a queue as a process of its own, to be killed: it writes what it gets and what it settles to stdout, a JSON object a line.

    python -m tests.process.queue_worker ADDRESS TOPIC SUBSCRIPTION NAME [GATHERED]

A line "got" comes before the message is worked on, "acking" or "nacking" before it is settled, "acked" when the broker has answered.
Moments are those of the machine's monotonic clock, which all processes share. A row is a partition, an offset, the number of its
lease, and the lease's end as far as the kit knows it, in microseconds by the broker's lease clock: a lease begins when the broker
grants it, and not when the program gets the message. A "got" also tells when the message was due, and what the wall clock shows. The
worker ends when its stdin does.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import bowstring
from bowstring import errors

LEASE_SECONDS = 1.0
GATHERED = 10
"""So many messages are settled before the worker waits for the answers."""


def tell(kind: str, messages: list[bowstring.LeasedMessage], **more: object) -> None:
    """One line, in one write: a killed worker leaves no half of it."""
    rows = [(message.partition, message.offset, grant(message), round(message.lease_end.timestamp() * 1e6)) for message in messages]
    line = {"kind": kind, "at": time.monotonic(), "rows": rows, "process": os.getpid(), **more}
    os.write(1, (json.dumps(line) + "\n").encode())


def grant(message: bowstring.LeasedMessage) -> int:
    """The number of its lease. The kit does not show it to programs."""
    page: Any = message._page  # pyright: ignore[reportPrivateUsage]
    return page.lease.grant


def settle(gathered: list[tuple[bowstring.LeasedMessage, bool]]) -> None:
    """Acks or nacks messages, and tells which acks the broker has answered."""
    tell("acking", [message for message, good in gathered if good])
    tell("nacking", [message for message, good in gathered if not good])
    for message, good, receipt in [(message, good, message.ack() if good else message.nack()) for message, good in gathered]:
        with suppress(errors.LeaseLost):
            receipt.result(timeout=30)
            if good:
                tell("acked", [message])


def main(address: str, topic: str, subscription: str, name: str, gathered_max: str = str(GATHERED)) -> None:
    with bowstring.connect(address, timeout=30) as client, client.consumer(topic, subscription, name=name, lease=LEASE_SECONDS) as consumer:
        threading.Thread(target=lambda: (sys.stdin.read(), consumer.close()), daemon=True).start()
        gathered: list[tuple[bowstring.LeasedMessage, bool]] = []
        for message in consumer:
            due = message.due.timestamp() if message.due is not None else 0.0
            tell("got", [message], retry_count=message.retry_count, name=name, due=due, wall=time.time())
            gathered.append((message, (message.offset + message.retry_count) % 7 != 0))
            if len(gathered) >= int(gathered_max) or consumer.statistics().ahead == 0:
                settle(gathered)
                gathered.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
