"""The rows of states, for every database: their values, and their checksums.

Each row has a CRC-32C over its values: numbers as 8 bytes each, the name of the machine, the state
itself. As in `extent_rows`, `total` is a second guard that SQL can add up: the sum of the numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import google_crc32c

from bowstring.catalog.extent_rows import Values
from bowstring.ports.extents import StateRow
from bowstring.ports.failures import Damaged

_NUMBERS = struct.Struct("<qqqqqq")


def state_values(row: StateRow) -> Values:
    total = row.topic + row.partition + row.part + row.broker + row.sequence
    return {**row._asdict(), "total": total, "crc": _checksum(*row)}


def verified_states(stored: Iterable[Sequence[Any]]) -> list[StateRow]:
    """States in their order, out of (topic, partition, machine, part, broker, sequence, crc,
    state). Raises Damaged.
    """
    found: list[StateRow] = []
    for topic, partition, machine, part, broker, sequence, crc, state in stored:
        if _checksum(topic, partition, machine, part, broker, sequence, state) != crc:
            raise Damaged(f"{name(topic, partition, machine, part)} (as of sequence {sequence} of broker {broker}) does not verify")
        found.append(StateRow(topic, partition, machine, part, broker, sequence, state))
    return sorted(found)


def name(topic: object, partition: object, machine: object, part: object) -> str:
    """The name of a state in errors."""
    return f"part {part} of the state {machine!r} of topic {topic}, partition {partition}"


def _checksum(topic: int, partition: int, machine: str, part: int, broker: int, sequence: int, state: bytes) -> int:
    """-1, which is no checksum, for values that are not of the columns' types: then the row is
    damaged.
    """
    try:
        name = machine.encode()
        numbers = _NUMBERS.pack(topic, partition, part, broker, sequence, len(name))
        return google_crc32c.extend(google_crc32c.value(numbers + name), state)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError):
        return -1
