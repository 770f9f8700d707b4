"""Workers that bill the orders: they share the topic as a queue while Spark reads it as a log. Some cards are declined the first time, and
those orders come again."""

from __future__ import annotations

import random
import threading

import bowstring

SUBSCRIPTION = "billing"
DECLINED = 0.05
LOOK_SECONDS = 0.2


class Billing:
    """So many workers, each with a consumer of its own."""

    def __init__(self, client: bowstring.Client, topic: str, workers: int) -> None:
        self._client = client
        self._topic = topic
        client.create_subscription(topic, SUBSCRIPTION)
        self._consumers = [client.consumer(topic, SUBSCRIPTION, name=f"worker-{number}") for number in range(1, workers + 1)]
        self._threads = [threading.Thread(target=self._work, args=(consumer,)) for consumer in self._consumers]
        self.billed: dict[str, int] = {consumer.name: 0 for consumer in self._consumers}
        """How many orders each has billed."""
        self.declined = 0
        self._chance = random.Random(2)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _work(self, consumer: bowstring.Consumer) -> None:
        for message in consumer:
            if message.retry_count == 0 and self._chance.random() < DECLINED:
                message.nack(reason="the card was declined")
                self.declined += 1
            else:
                message.ack()
                self.billed[consumer.name] += 1

    def finish(self) -> None:
        """Waits until all orders are billed, and ends the workers."""
        waiting = threading.Event()
        while self._client.subscription(self._topic, SUBSCRIPTION).backlog:
            waiting.wait(LOOK_SECONDS)
        self.stop()

    def stop(self) -> None:
        for consumer in self._consumers:
            consumer.close()
        for thread in self._threads:
            thread.join()
