"""An owner deletes messages by their ids, through the kit, on a broker with real files: before and after a seal, a restart, a cleaning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process.house import HOUR, House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path / "data")
    await house.start()
    async with house.client() as client:
        await client.create_topic("orders", partitions=2, deduplication=HOUR)
    yield house
    await house.stop()


async def values(house: House) -> list[str]:
    async with house.client() as client, client.reader("orders", end="latest") as reader:
        return sorted([message.text() async for message in reader])


async def publish(house: House, *names: str, group: str = "shop") -> dict[str, bowstring.Stored]:
    """Messages whose ids are their values, each alone in its batch."""
    async with house.client() as client, client.producer("orders", group=group) as producer:
        return {name: await producer.send(name, id=name, key=name) for name in names}


async def delete(house: House, *ids: str, group: str = "shop") -> bowstring.Answers:
    async with house.client() as client, client.producer("orders", group=group) as producer:
        return await producer.delete(ids)


async def test_what_its_owner_has_deleted_is_read_by_nobody(house: House):
    stored = await publish(house, "a", "b", "c", "d")
    answers = await delete(house, "c", "a")
    assert answers.ok.to_pylist() == [True, True]
    places = list(zip(answers.partitions.to_pylist(), answers.offsets.to_pylist(), strict=True))
    assert places == [(stored[name].partition, stored[name].offset) for name in "ca"]
    assert await values(house) == ["b", "d"]
    async with house.client() as client:
        assert (await client.topic("orders")).messages == 2


async def test_a_reader_that_stands_before_them_passes_over_them(house: House):
    async with house.client() as client, client.producer("orders", group="shop") as producer, client.reader("orders") as reader:
        for name in "abc":
            await producer.send(name, id=name, key="k")
        assert [message.text() for message in await reader.poll(timeout=10, max_rows=1)] == ["a"]
        await producer.delete(["b"])
        async with client.reader("orders", start=reader.position) as behind:
            await producer.send("d", key="k")
            seen: list[str] = []
            while seen[-1:] != ["d"]:
                seen += [message.text() for message in await behind.poll(timeout=10)]
    assert seen == ["c", "d"]


async def test_generated_ids_are_deleted_row_by_row(house: House):
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        single = producer.send("single", key="k")
        batch = producer.send_batch([f"row-{number}" for number in range(5)])
        answers = await producer.delete([single.id, *batch.ids[1:3]])  # what was sent before is stored first
        assert answers.ok.to_pylist() == [True] * 3
    assert await values(house) == ["row-0", "row-3", "row-4"]


async def test_each_id_that_cannot_be_deleted_is_refused_for_itself(house: House):
    await publish(house, "a", "b")
    await publish(house, "theirs", group="warehouse")
    answers = await delete(house, "a", "nobody", "theirs", "b")
    assert answers.ok.to_pylist() == [True, False, False, True]
    assert answers.offsets.to_pylist()[1:3] == [None, None]
    assert isinstance(answers.refused[1], errors.MessageNotFound)
    assert str(answers.refused[1]).startswith("there is no message 'nobody' in 'orders'.")
    assert isinstance(answers.refused[2], errors.NotAuthorised)
    assert str(answers.refused[2]).startswith("message 'theirs' belongs to group 'warehouse'.")
    with pytest.raises(errors.PartlyRefused):
        answers.raise_for_refused()
    assert await values(house) == ["theirs"]


async def test_a_delete_can_be_repeated_and_the_id_stays_taken(house: House):
    stored = await publish(house, "a", "b")
    first, again = await delete(house, "a"), await delete(house, "a")
    assert first.offsets == again.offsets
    assert (await publish(house, "a"))["a"] == stored["a"]._replace(duplicate=True)
    assert await values(house) == ["b"]
    async with house.client() as client, client.producer("orders") as producer:
        assert await producer.find("a") is None


@pytest.mark.parametrize("sealed_first", [True, False])
async def test_deletes_outlive_seals_and_restarts(house: House, sealed_first: bool):
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        generated = [(await producer.send(f"g{number}", key="k")).id for number in range(6)]
    names = [f"n{number}" for number in range(6)]
    await publish(house, *names)
    if sealed_first:
        await house.seal()
        await house.restart()
    answers = await delete(house, names[1], generated[2], names[4], generated[5])
    assert answers.ok.to_pylist() == [True] * 4
    left = ["g0", "g1", "g3", "g4", "n0", "n2", "n3", "n5"]
    assert await values(house) == left
    await house.restart()
    assert await values(house) == left
    await house.seal()
    await house.restart()
    assert await values(house) == left
    assert (await delete(house, names[1], generated[2])).ok.to_pylist() == [True] * 2
    refused = (await delete(house, names[0], generated[0], group="warehouse")).refused
    assert [type(error) for error in refused.values()] == [errors.NotAuthorised] * 2
    assert await values(house) == left


async def test_ids_of_deleted_messages_stay_taken_after_a_cleaning(house: House):
    """All of them are in one page, and nothing in it is delivered any more: it is kept for as long as the ids are known."""
    names = [f"n{number}" for number in range(10)]
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        for name in names:
            await producer.send(name, id=name, key="k")
    await delete(house, *names)
    for _ in range(10):
        async with house.client() as client, client.producer("orders") as producer:
            await producer.send("other", key="k")
        await house.seal()
    await house.upkeep()  # the extents are joined
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        assert (await producer.send(names[3], id=names[3], key="k")).duplicate
    house.clock.ahead += 2 * HOUR
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        assert not (await producer.send(names[3], id=names[3], key="k")).duplicate


async def test_an_id_in_several_partitions_is_deleted_in_all_of_them(house: House):
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        places = {(await producer.send("same", id="same", key=f"k{number}")).partition for number in range(8)}
        assert places == {0, 1}
        assert (await producer.delete(["same"])).ok.to_pylist() == [True]
    assert await values(house) == []


async def test_more_ids_than_a_request_takes_are_deleted_in_several(house: House):
    names = [f"{number:0200d}" for number in range(1500)]
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        await producer.send_batch(pa.table({"value": names, "id": names}))
        assert (await producer.delete([*names, "nobody"])).ok.to_pylist() == [True] * len(names) + [False]
    assert await values(house) == []


def test_the_plain_face_deletes_too():
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client, client.producer("orders", group="shop") as producer:
        producer.send(b"a", id="a").result(10)
        producer.send(b"b", id="b")
        assert producer.delete(["b", "c"]).ok.to_pylist() == [True, False]
        assert [message.text() for message in client.reader("orders", end="latest")] == ["a"]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (pb.DeleteMessagesRequest(topic="orders", group="shop"), "0 ids were given. One request takes 1 to 1000."),
        (pb.DeleteMessagesRequest(topic="orders", group="shop", ids=["a"] * 1001), "1001 ids were given. "),
        (pb.DeleteMessagesRequest(topic="orders", group="shop", ids=["a", ""]), "an id of 0 bytes was given. "),
        (pb.DeleteMessagesRequest(topic="orders", group="shop", ids=["a" * 257]), "an id of 257 bytes was given. "),
        (pb.DeleteMessagesRequest(topic="orders", ids=["a"]), "no producer group was given. "),
        (pb.DeleteMessagesRequest(topic="order", group="shop", ids=["a"]), "there is no topic 'order'. "),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_as_a_whole(house: House, request_: pb.DeleteMessagesRequest, sentence: str):
    await publish(house, "a")
    async with house.client() as client:
        with pytest.raises(errors.Rejected) as caught:
            await client._connection.call("DeleteMessages", request_.SerializeToString(), 10)
    assert str(caught.value).startswith(sentence)
    assert await values(house) == ["a"]
