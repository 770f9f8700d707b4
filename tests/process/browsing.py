"""Requests by HTTP, and metrics as Prometheus' own parser reads them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

LIMIT_SECONDS = 60


class Answer(NamedTuple):
    """What was answered."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def content(self) -> Any:
        """The text as JSON."""
        return json.loads(self.text)


def get(url: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
    """The answer to a request, also if it refuses."""
    request = urllib.request.Request(url, method=method, headers=headers or {})
    try:
        answer = urllib.request.urlopen(request, timeout=LIMIT_SECONDS)
    except urllib.error.HTTPError as refusal:
        answer = refusal
    with answer:
        return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read().decode())


def scrape(address: str) -> dict[tuple[str, ...], float]:
    """Every sample, by its name and the values of its labels in the order of their names."""
    answer = get(f"{address}/metrics")
    assert answer.status == 200
    families = list(text_string_to_metric_families(answer.text))
    return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for family in families for each in family.samples}
