"""A worker of `make demo-queue`: it bills orders, and one of them crashes it.

    python -m demo.queue_worker ADDRESS NAME

It writes a line for each order.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import bowstring

TOPIC: Final = "orders"
SUBSCRIPTION: Final = "billing"
CRASHED: Final = 70


class Declined(Exception):
    """The card was declined; the bank may think better of it."""


def bill(message: bowstring.LeasedMessage) -> None:
    """Returning acks the order, an exception nacks it, and `Reject` makes it a dead letter. What is
    sent back has the reason with it: its customer is known by then.
    """
    order = message.json()
    match order["kind"]:
        case "declined" if not message.retry_count:
            print(f"{order['order']}: the card was declined", flush=True)
            raise Declined
        case "unknown" if "bowstring-reason" not in message.attributes:
            print(f"{order['order']}: no such customer", flush=True)
            raise bowstring.Reject("no such customer")
        case "poison":
            print(f"{order['order']}: this order crashes the worker", flush=True)
            os._exit(CRASHED)
        case _:
            print(f"{order['order']}: billed", flush=True)


def main(address: str, name: str) -> None:
    with bowstring.connect(address) as client, client.consumer(TOPIC, SUBSCRIPTION, name=name, credit=8) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.close())
        consumer.run(bill)


if __name__ == "__main__":
    main(*sys.argv[1:])
