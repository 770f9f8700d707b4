"""Plausible orders: more in the evening than at night, small sums more often than large ones, and each country its own share."""

from __future__ import annotations

import math
import random
import threading
from datetime import UTC, datetime

import bowstring

COUNTRIES = {"CH": 5, "DE": 8, "AT": 3, "FR": 6, "IT": 4}
PRODUCTS = {"coffee": 9.5, "bow": 180.0, "string": 14.0, "arrows": 32.0, "target": 75.0}
TOPIC = "orders"


def produce(client: bowstring.Client, seconds: float, rate: float, stopped: threading.Event) -> int:
    """Sends orders for so many seconds, about `rate` a second, in a wave; gives their number."""
    chance, sent, pause = random.Random(1), 0, 0.05
    with client.producer(TOPIC, group="shop") as producer:
        for step in range(round(seconds / pause)):
            if stopped.wait(pause):
                break
            wave = 1 + 0.6 * math.sin(2 * math.pi * step * pause / 20)
            for _ in range(round(chance.gauss(rate * pause * wave, 1.5))):
                sent += 1
                country, product = _chosen(chance, COUNTRIES), chance.choice(list(PRODUCTS))
                amount = round(PRODUCTS[product] * (1 + chance.expovariate(1.2)), 2)
                at = datetime.now(UTC).isoformat()
                order = {"order": sent, "country": country, "product": product, "amount": amount, "at": at}
                producer.send(json=order, key=f"customer-{chance.randrange(500)}", attributes={"country": country})
    return sent


def _chosen(chance: random.Random, shares: dict[str, int]) -> str:
    return chance.choices(list(shares), list(shares.values()))[0]
