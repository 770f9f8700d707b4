"""Plausible orders, for trying things out: `bowstring dev --sample`.

A shop with a few hundred customers. An order is placed, mostly paid some seconds later, and shipped
after that, or cancelled; all that happens to it has the key of its customer. The same seed gives
the same orders.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

CUSTOMERS: Final = 400
COUNTRIES: Final = {"CH": 5, "DE": 4, "FR": 2, "AT": 2, "IT": 1, "SE": 1}
MENU: Final = {
    "coffee": 4.20,
    "espresso": 3.80,
    "cappuccino": 4.90,
    "tea": 3.90,
    "hot chocolate": 5.10,
    "croissant": 2.60,
    "bread roll": 1.40,
    "cheese sandwich": 8.50,
    "apple cake": 5.40,
    "orange juice": 5.80,
}
ORDERS_A_SECOND: Final = 4.0


class Event(NamedTuple):
    """An event in the life of an order, with its time in seconds since the beginning."""

    second: float
    key: str
    value: bytes
    attributes: dict[str, str]
    id: str


class Shop:
    """A shop, where orders are placed, paid, shipped and cancelled."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._placed = 0
        self._later: list[tuple[float, int, dict[str, Any]]] = []
        weights = list(COUNTRIES.values())
        self._home = self._random.choices(list(COUNTRIES), weights, k=CUSTOMERS)

    def events(self) -> Iterator[Event]:
        """The events in the order of their times, without end."""
        second = 0.0
        while True:
            second += self._random.expovariate(ORDERS_A_SECOND)
            while self._later and self._later[0][0] <= second:
                due, _, order = heapq.heappop(self._later)
                yield self._go_on(due, order)
            yield self._place(second)

    def _place(self, second: float) -> Event:
        self._placed += 1
        # A few customers order much more than the others, as everywhere.
        customer = int(CUSTOMERS * self._random.random() ** 3)
        wanted = self._random.sample(list(MENU), k=self._random.choices((1, 2, 3, 4), (5, 4, 2, 1))[0])
        counts = self._random.choices((1, 2, 3), (3, 2, 1), k=len(wanted))
        items = [{"article": article, "count": count, "price": MENU[article]} for article, count in zip(wanted, counts, strict=True)]
        total = round(sum(count * MENU[article] for article, count in zip(wanted, counts, strict=True)), 2)
        order = {"order": self._placed, "customer": f"customer-{customer + 1}", "state": "placed", "items": items, "total": total}
        self._then(second, order, self._random.choices(("paid", "cancelled"), (94, 6))[0], self._random.lognormvariate(1.0, 0.6))
        return self._event(second, order)

    def _go_on(self, second: float, order: dict[str, Any]) -> Event:
        if order["state"] == "paid":
            self._then(second, order, "shipped", self._random.lognormvariate(2.0, 0.5))
        return self._event(second, order)

    def _then(self, second: float, order: dict[str, Any], state: str, seconds: float) -> None:
        following = {key: value for key, value in order.items() if key != "items"} | {"state": state}
        heapq.heappush(self._later, (second + seconds, order["order"], following))

    def _event(self, second: float, order: dict[str, Any]) -> Event:
        country = self._home[int(order["customer"].removeprefix("customer-")) - 1]
        attributes = {"country": country, "state": order["state"]}
        return Event(second, order["customer"], json.dumps(order).encode(), attributes, f"order-{order['order']}-{order['state']}")
