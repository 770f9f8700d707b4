"""A worker that a poison message kills: it gets no further than to have it in its hands.

python -m tests.process.storm_worker ADDRESS TOPIC SUBSCRIPTION [FILE]

It writes what it has done to the file before it acks it: a time, a key and a number in each line.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import bowstring

POISON = "poison"
LEASE_SECONDS = 1.0


def main(address: str, topic: str, subscription: str, file: str = os.devnull) -> None:
    """Runs until a message or its parent kills it."""
    with bowstring.connect(address) as client, client.consumer(topic, subscription, credit=400, lease=LEASE_SECONDS) as consumer:
        for batch in consumer.batches(max_rows=200):
            if any(message.id == POISON for message in batch):
                os.kill(os.getpid(), signal.SIGKILL)
            lines = "".join(f"{time.time()} {message.key.decode()} {message.value.decode()}\n" for message in batch)
            with open(file, "ab", buffering=0) as done:
                done.write(lines.encode())
            batch.ack()
            consumer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:5])
