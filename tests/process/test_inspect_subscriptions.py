"""`bowstring inspect` and subscriptions: what it tells of them, that it finds damage, and that a broker starts after a repair and
delivers what is not known to be settled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import bowstring
from bowstring.inspection.repair import repair
from bowstring.messages.hashing import partition_of
from tests.process import stored
from tests.process.test_inspect import verified

NOW = 1_900_000_000_000_000
EACH = 10
"""Messages of each of the two partitions."""
ACKED = {(partition, offset) for partition in (0, 1) for offset in (2, 3, 5)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`billing` has acked three messages of each partition before a seal, out of order, and one of each after it; `mail` nothing."""
    data = tmp_path_factory.mktemp("subscriptions") / "data"
    with stored.broker(data) as running, running.connect() as client:
        client.create_topic("clicks", partitions=2)
        client.create_subscription("clicks", "billing", lease=7)
        client.create_subscription("clicks", "mail")
        with client.producer("clicks") as producer:
            for partition in (0, 1):
                key = next(key for key in (b"a", b"b", b"c", b"d", b"e", b"f") if partition_of(key, 2) == partition)
                for number in range(EACH):
                    producer.send(b"%d" % number, key=key).result(30)
        acknowledge(client, ACKED)
        stored.seal(running)
        acknowledge(client, {(0, 7), (1, 7)})
    assert not verified(data)
    return data


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def acknowledge(client: bowstring.Client, wanted: set[tuple[int, int]], subscription: str = "billing") -> None:
    """Acks these, and gives everything else back unseen."""
    left = set(wanted)
    with client.consumer("clicks", subscription, credit=100) as consumer:
        for message in consumer:
            if (message.partition, message.offset) in left:
                message.ack().result(30)
                left.discard((message.partition, message.offset))
            if not left:
                break


def delivered(data: Path, subscription: str = "billing", count: int = 2 * EACH - len(ACKED) - 2) -> set[tuple[int, int]]:
    """What a subscription delivers of which it is not known that it was settled."""
    found: set[tuple[int, int]] = set()
    with stored.broker(data) as running, running.connect() as client, client.consumer("clicks", subscription, credit=100) as consumer:
        for message in consumer:
            found.add((message.partition, message.offset))
            if len(found) == count:
                break
    return found


def everything(*, without: set[tuple[int, int]] = frozenset()) -> set[tuple[int, int]]:  # type: ignore[assignment]
    return {(partition, offset) for partition in (0, 1) for offset in range(1, EACH + 1)} - without


def test_the_overview_tells_of_subscriptions(data: Path):
    before = stored.snapshot(data)
    (told,) = [json.loads(line) for line in stored.command("inspect", str(data)).stdout.splitlines()]
    billing, mail = told["topics"][0]["subscriptions"]
    assert (billing["name"], billing["id"], billing["mode"], billing["lease"], billing["backlog"]) == ("billing", 1, "shared", 7.0, 12)
    assert (mail["name"], mail["id"], mail["lease"], mail["backlog"], mail["leased"]) == ("mail", 2, 30.0, 20, 0)
    wanted = {"floor": 1, "cursor": 11, "backlog": 6}
    assert [{key: each[key] for key in wanted} for each in billing["ranges"]] == [wanted, wanted]
    assert stored.snapshot(data) == before


def test_the_table_has_a_line_for_each_partition(data: Path):
    done = stored.command("inspect", str(data), "-o", "table")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["topic", "subscription", "mode", "lease", "partition", "floor", "cursor", "backlog", "leases", "leased"] in lines
    assert [line for line in lines if "billing" in line] == [["clicks", "billing", "shared", "7", "s", "all", "2", "12", "0"]]
    assert lines.count(["0", "1", "11", "6", "0", "0"]) == 1


def test_a_whole_directory_delivers_what_is_not_settled(data: Path):
    assert delivered(data) == everything(without=ACKED | {(0, 7), (1, 7)})


@pytest.mark.parametrize("damage", ["head", "head of all", "chunk", "missing", "of another flush"])
def test_a_damaged_ledger_is_found_and_repaired_and_nothing_is_forgotten(data: Path, damage: str):
    where = "machine = 'ledger-1' AND partition = 0"
    match damage:
        case "head":
            stored.catalog(data, f"UPDATE state SET state = x'00' WHERE {where} AND part = 0")
        case "head of all":
            stored.catalog(data, "UPDATE state SET state = x'00' WHERE machine = 'ledger-1' AND part = 0")
        case "chunk":
            stored.catalog(data, f"UPDATE state SET crc = crc + 1 WHERE {where} AND part = 1")
        case "missing":
            stored.catalog(data, f"DELETE FROM state WHERE {where} AND part = 0")
        case _:
            stored.catalog(data, f"UPDATE state SET sequence = sequence + 1 WHERE {where} AND part = 0")
    found = [finding for finding in verified(data) if finding.damaged]
    assert {(finding.kind, finding.topic) for finding in found} == {("ledger", "clicks")}
    with pytest.raises(bowstring.Corrupt), stored.broker(data):
        pass
    done = repair(str(data), now=NOW)
    assert {finding.kind for finding in done} == {"ledger"}
    assert not verified(data)
    name = "recovered-1" if damage == "head of all" else "billing"
    missing = everything(without=ACKED | {(0, 7), (1, 7)})
    again = {(0, 2), (0, 3), (0, 5), (0, 7)} | ({(1, 2), (1, 3), (1, 5), (1, 7)} if damage == "head of all" else set())
    if damage == "chunk":  # what was settled after it was captured is in the journal
        again = {(0, 2), (0, 3), (0, 5)}
    assert delivered(data, name, len(missing | again)) == missing | again
    assert not verified(data)


def test_a_lost_row_of_the_journal_costs_deliveries_and_no_messages(data: Path):
    """Every row in turn is damaged, and repaired; a broker starts, and delivers at least what is not settled."""
    missing = everything(without=ACKED | {(0, 7), (1, 7)})
    for (position,) in stored.catalog(data, "SELECT position FROM journal ORDER BY position"):
        copy = Path(shutil.copytree(data, data.with_name(f"data-{position}")))
        stored.catalog(copy, "UPDATE journal SET crc = crc + 1 WHERE position = ?", position)
        assert any(finding.damaged for finding in verified(copy))
        repair(str(copy), now=NOW)
        assert not [finding for finding in verified(copy) if finding.damaged]
        with stored.broker(copy) as running, running.connect() as client:
            described = client.subscription("clicks", "billing")
            assert len(missing) <= described.backlog <= 2 * EACH
        assert delivered(copy, count=described.backlog) >= missing


def test_a_damaged_head_of_a_partition_keeps_its_subscriptions(data: Path):
    stored.catalog(data, "UPDATE state SET state = x'00' WHERE machine = 'partition' AND partition = 0")
    assert [finding.kind for finding in verified(data) if finding.damaged] == ["snapshot"]
    repair(str(data), now=NOW)
    assert not verified(data)
    assert delivered(data) == everything(without=ACKED | {(0, 7), (1, 7)})
    with stored.broker(data) as running, running.connect() as client:
        assert client.create_subscription("clicks", "new").id == 3
