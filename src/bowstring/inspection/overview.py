"""The contents of a data directory in figures: for people, and as one JSON object for programs."""

from __future__ import annotations

from typing import Any

from bowstring import times
from bowstring.core.partition import Partition
from bowstring.inspection.contents import Contents
from bowstring.inspection.directory import CATALOG, DataDirectory
from bowstring.inspection.structure import referred_to
from bowstring.store.reserve import RESERVE
from bowstring.store.segments import epoch_of, free_name, segment_name


def overview(directory: DataDirectory, contents: Contents) -> dict[str, Any]:
    """Everything that a glance tells, without reading a page."""
    sizes, stock = directory.sizes, directory.inventory()
    return {
        "directory": directory.path,
        "format": contents.format,
        "cluster": contents.cluster.hex(),
        "epoch": contents.epoch,
        "sequence": max((journal.last for journal in contents.journals.values()), default=0),
        "catalog_bytes": sizes[CATALOG] + sizes.get(CATALOG + "-wal", 0),
        "journal_rows": contents.journal_rows,
        "journal_bytes": contents.journal_bytes,
        "journals": [
            {"broker": journal.broker, "first": journal.first, "last": journal.last, "rows": journal.rows, "bytes": journal.bytes}
            for journal in contents.journals.values()
        ],
        "extents": sum(map(len, contents.extents.values())),
        "topics": topics(contents),
        "segments": segments(directory, contents),
        "free_files": [{"name": free_name(number), "bytes": sizes[free_name(number)]} for number in stock.free],
        "orphans": [{"name": orphan.name, "bytes": sizes[orphan.name]} for orphan in stock.orphans],
        "reserve_bytes": sizes.get(RESERVE, 0),
        "damaged": [finding.row() for finding in contents.findings if finding.damaged],
    }


def topics(contents: Contents) -> list[dict[str, Any]]:
    """Each topic with what its partitions hold."""
    found: list[dict[str, Any]] = []
    for row in sorted(contents.topics.values(), key=lambda row: row.name):
        partitions = [contents.partitions[row.id, number] for number in range(row.partitions)]
        found.append(
            {
                "name": row.name,
                "id": row.id,
                "partitions": row.partitions,
                "messages": sum(partition.messages for partition in partitions),
                "bytes": sum(partition.bytes for partition in partitions),
                "created": times.to_text(row.created),
                "ranges": [
                    {
                        "partition": partition.number,
                        "first": partition.retained.first,
                        "floor": partition.retained.floor,
                        "next": partition.next_offset,
                        "sealed": partition.sealed_end,
                        "deleted": len(partition.deletions),
                        "bytes": partition.bytes,
                    }
                    for partition in partitions
                ],
                "subscriptions": subscriptions(partitions),
            }
        )
    return found


def subscriptions(partitions: list[Partition]) -> list[dict[str, Any]]:
    """The subscriptions of a topic, by name."""
    numbers = {number for partition in partitions for number in partition.ledgers.numbers()}
    found = [_subscription(number, partitions) for number in numbers]
    return sorted(found, key=lambda one: (one["name"], one["id"]))


def _subscription(number: int, partitions: list[Partition]) -> dict[str, Any]:
    ledgers = [(partition, ledger) for partition in partitions if (ledger := partition.ledgers.get(number)) is not None]
    first = ledgers[0][1]
    ranges = [
        {
            "partition": partition.number,
            "floor": ledger.floor,
            "cursor": ledger.cursor,
            "backlog": ledger.backlog(partition.next_offset),
            "leases": len(ledger.leases),
            "leased": len(ledger.leases.rows()),
        }
        for partition, ledger in ledgers
    ]
    return {
        "name": first.name,
        "id": number,
        "mode": first.settings.mode,
        "lease": first.settings.lease / 1e6,
        "created": times.to_text(first.created),
        "backlog": sum(each["backlog"] for each in ranges),
        "leased": sum(each["leased"] for each in ranges),
        "ranges": ranges,
    }


def segments(directory: DataDirectory, contents: Contents) -> list[dict[str, Any]]:
    """Each segment with how much of it lives: those that are there, and those that should be."""
    used = referred_to(contents)
    found: list[dict[str, Any]] = []
    for segment in sorted({*directory.inventory().unused, *(segment for segment in used if segment > 0)}):
        size = directory.size(segment)
        found.append(
            {
                "id": f"{segment:x}",
                "name": segment_name(segment),
                "epoch": epoch_of(segment),
                "bytes": size,
                "alive": used[segment],
                "share": round(used[segment] / size, 4) if size else 0.0,
                "state": "missing" if size is None else "used" if segment in used else "unused",
            }
        )
    return found
