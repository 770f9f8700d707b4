"""`make demo-queue`: three workers share a queue of orders. Some fail and come again, one crashes its worker each time, one belongs to
no customer. The innocent ones are billed, and the two become dead letters. One of these is sent back, and is billed too.

Broker and workers are real processes in a temporary directory; nothing is left.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

import bowstring
from bowstring import errors
from demo.queue_worker import SUBSCRIPTION, TOPIC

WORKERS: Final = 3
ORDERS: Final = 200
POISON: Final = 57
UNKNOWN: Final = 120
LOOK_SECONDS: Final = 0.1
LIMIT_SECONDS: Final = 120.0


class Worker:
    """A worker's process, started again when it has crashed."""

    def __init__(self, address: str, name: str) -> None:
        self.name = name
        self.crashes = 0
        self.billed: list[str] = []
        self.last = ""
        self._command = [sys.executable, "-m", "demo.queue_worker", address, name]
        self._ends = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)

    def _follow(self) -> None:
        while True:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.last = line.strip()
                order, _, outcome = self.last.partition(": ")
                self.billed += [order] if outcome == "billed" else []
            self._process.wait()
            if self._ends:
                return
            self.crashes += 1
            self._process = self._start()

    def stop(self) -> None:
        """Lets it finish the order in hand."""
        self._ends = True
        self._process.terminate()
        self._thread.join()


def produce(client: bowstring.Client) -> None:
    with client.producer(TOPIC) as producer:
        for number in range(1, ORDERS + 1):
            kind = {POISON: "poison", UNKNOWN: "unknown"}.get(number, "declined" if number % 20 == 0 else "plain")
            producer.send(json={"order": number, "kind": kind}, key=f"customer-{number % 30}", id=f"order-{number}")


def table(client: bowstring.Client, workers: list[Worker]) -> Table:
    """How it stands."""
    found = client.subscription(TOPIC, SUBSCRIPTION)
    held = {consumer.name: consumer.leased for consumer in found.consumers}
    shown = Table(title=f"{ORDERS} orders: {found.backlog} not settled, {found.leased} leased")
    for column in ("worker", "holds", "billed", "crashes", "last"):
        shown.add_column(column, justify="left" if column in ("worker", "last") else "right", min_width=26 if column == "last" else None)
    for worker in workers:
        shown.add_row(worker.name, f"{held.get(worker.name, 0)}", f"{len(worker.billed)}", f"{worker.crashes}", worker.last)
    return shown


def watch(client: bowstring.Client, workers: list[Worker], console: Console, done: Callable[[], bool]) -> None:
    """Shows the table until something has come to pass."""
    waiting, until = threading.Event(), time.monotonic() + LIMIT_SECONDS
    with Live(table(client, workers), console=console, auto_refresh=False) as live:
        while not done():
            waiting.wait(LOOK_SECONDS)
            live.update(table(client, workers), refresh=True)
            if time.monotonic() > until:
                raise SystemExit(f"This has not come to an end within {LIMIT_SECONDS:g} seconds.")
        live.update(table(client, workers), refresh=True)


def show_dead_letters(letters: list[bowstring.Message], console: Console) -> None:
    shown = Table(title="dead letters")
    for column in ("order", "reason", "deliveries", "last consumer"):
        shown.add_column(column)
    for letter in letters:
        told = letter.attributes
        deliveries = told["bowstring-retry-count"]
        shown.add_row(f"{letter.json()['order']}", told["bowstring-reason"], deliveries, told.get("bowstring-consumer", ""))
    console.print(shown)


def run(console: Console) -> bool:
    """The whole story. Says whether every order was billed in the end."""
    with (
        tempfile.TemporaryDirectory(prefix="bowstring-demo-") as place,
        bowstring.Broker(data=f"{place}/data") as broker,
        broker.connect() as client,
    ):
        client.create_topic(TOPIC, partitions=2)
        client.create_subscription(TOPIC, SUBSCRIPTION, lease=1, max_deliveries=4, backoff=(0.2, 2, 2))
        produce(client)
        console.print(f"A broker serves {broker.address}.")
        console.print(f"Order {POISON} crashes its worker, order {UNKNOWN} has no customer, every 20th card is declined.")
        workers = [Worker(broker.address, f"worker-{number}") for number in range(1, WORKERS + 1)]
        try:
            return _story(client, workers, console)
        finally:
            for worker in workers:
                worker.stop()


def _story(client: bowstring.Client, workers: list[Worker], console: Console) -> bool:
    def all_settled() -> bool:
        return client.subscription(TOPIC, SUBSCRIPTION).backlog == 0

    def both_dead() -> bool:
        return all_settled() and client.subscription(TOPIC, SUBSCRIPTION).dead == 2

    def one_dead() -> bool:
        return client.subscription(TOPIC, SUBSCRIPTION).dead == 1

    watch(client, workers, console, both_dead)
    letters = list(client.dead_letters(TOPIC, SUBSCRIPTION))
    show_dead_letters(letters, console)
    console.print(f"The customer of order {UNKNOWN} is known now: the order is sent back.")
    client.redrive(TOPIC, SUBSCRIPTION, [f"order-{UNKNOWN}"]).raise_for_refused()
    watch(client, workers, console, one_dead)
    for worker in workers:
        worker.stop()
    left = [letter.json()["order"] for letter in client.dead_letters(TOPIC, SUBSCRIPTION)]
    crashes, bills = sum(worker.crashes for worker in workers), [order for worker in workers for order in worker.billed]
    billed = len(set(bills))
    console.print(f"After {crashes} crashes {billed} of {ORDERS} orders are billed, and order {POISON} is a dead letter.")
    console.print(f"{len(bills) - billed} were billed twice: their worker crashed before their ack was durable.")
    return billed == ORDERS - 1 and {letter.json()["order"] for letter in letters} == {POISON, UNKNOWN} and left == [POISON]


def main() -> int:
    argparse.ArgumentParser(prog="python -m demo.queue", description=__doc__).parse_args()
    try:
        return 0 if run(Console()) else 1
    except errors.Error as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
