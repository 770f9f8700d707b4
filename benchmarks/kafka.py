"""Kafka for the rounds: one node with its defaults (no sync), driven by confluent-kafka, the
fastest client from Python.

For each work the harness has a plain variant and one that is tuned; both are measured, and the
better one counts. The node is started once and warmed up, because a Java program is slow at first.
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers import node

VARIANTS = {"publish": ("W1", ("confluent", "confluent_batch")), "read": ("W2", ("consume", "consume_tuned"))}
"""The harness's workload and its variants, for comparison with our publishing and reading."""
WARM_SHARE = 4
"""A warm-up has this part of the messages."""


def version() -> str:
    jars = sorted((node.installed_folder() / "kafka" / "libs").glob("kafka-clients-*.jar"))
    return jars[-1].stem.removeprefix("kafka-clients-") if jars else "unknown"


class Kafka(node.Node):
    """One node with its defaults, warm."""

    def __init__(self) -> None:
        super().__init__("kafka")

    def warm_up(self, counts: dict[int, int]) -> None:
        for size, count in counts.items():
            for workload, variants in VARIANTS.values():
                for variant in variants:
                    self.measure(workload, variant, size, count // WARM_SHARE)

    def measure(self, workload: str, variant: str, size: int, count: int) -> dict[str, Any]:
        return self.harness(workload, variant, size, count=count)
