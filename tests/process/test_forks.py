"""Programs that fork: what was made before refuses in the child, what is made there works, and the
parent goes on undisturbed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bowstring
from tests.process import ephemeral
from tests.process.forking import program

ROUNDS = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 1}, topic_create="on-request")


SYNC = """
    client = bowstring.connect(address)
    producer = client.producer("orders")
    reader = client.reader("orders")
    producer.send(b"parent").result(30)
    receipt = producer.send(b"under way", timeout=30)

    def work():
        told({
            "topic": lambda: client.topic("orders"),
            "topics": lambda: list(client.topics()),
            "producer": lambda: client.producer("orders"),
            "reader": lambda: client.reader("orders"),
            "send": lambda: producer.send(b"child"),
            "keyed": lambda: producer.send(b"child", key="k"),
            "send_batch": lambda: producer.send_batch([b"child"]),
            "ready": lambda: producer.ready(),
            "flush": lambda: producer.flush(),
            "find": lambda: producer.find("x"),
            "delete": lambda: producer.delete(["x"]),
            "poll": lambda: reader.poll(1),
            "iteration": lambda: next(iter(reader)),
            "batches": lambda: next(reader.batches()),
            "seek": lambda: reader.seek("beginning"),
        })

    print("exit", in_child(work))
    print(receipt.result(30).topic)
    producer.close()
    client.close()
"""
REFUSED = "topic topics producer reader send keyed send_batch ready flush find delete poll iteration batches seek".split()


def test_what_was_made_before_the_fork_refuses_and_the_parent_goes_on(broker: bowstring.Broker):
    *told, exited, parent = program(SYNC, broker.address)
    assert (exited, parent) == ("exit 7", "orders")
    assert [line.split()[0] for line in told] == REFUSED
    for line in told:
        assert "and connections do not survive a fork. Connect anew in this process: bowstring.connect()." in line, line


def test_what_was_made_over_grpc_refuses_and_new_grpc_does_too(broker: bowstring.Broker):
    text = """
        address = address.replace("bowstring://", "grpc://")
        client = bowstring.connect(address)
        producer = client.producer("orders")
        producer.send(b"parent").result(30)

        def work():
            told({"send": lambda: producer.send(b"child"), "connect": lambda: bowstring.connect(address)})
            print(publishes(b"native", sys.argv[1]), flush=True)

        print("exit", in_child(work))
        print(producer.send(b"after").result(30).topic)
        client.close()
    """
    sent, connected, *rest = program(text, broker.address)
    assert "connections do not survive a fork" in sent
    assert "is a fork of one that uses gRPC" in connected
    assert "Connect by bowstring:// here" in connected
    assert rest == ["orders", "exit 7", "orders"]


def test_a_receipt_without_an_answer_refuses_in_the_child(broker: bowstring.Broker):
    """The parent's loop is held while it forks: nothing is answered."""
    text = """
        client = bowstring.connect(address)
        producer = client.producer("orders")
        done = producer.send(b"answered")
        done.result(30)
        held, release = threading.Event(), threading.Event()
        producer._thread.loop.call_soon_threadsafe(lambda: (held.set(), release.wait(30)))
        held.wait(30)
        receipt, rows = producer.send(b"under way"), producer.send_batch([b"also"])

        def work():
            told({"result": receipt.result, "rows": rows.result})
            print(done.result().topic)

        print("exit", in_child(work))
        release.set()
        print(receipt.result(30).topic, len(rows.result(30)))
        client.close()
    """
    result, rows, answered, exited, parent = program(text, broker.address)
    assert result.startswith("result this was made before process")
    assert rows.startswith("rows this was made before process")
    assert (answered, exited, parent) == ("orders", "exit 7", "orders 1")


def test_asyncio_objects_of_the_parent_refuse_too(broker: bowstring.Broker):
    text = """
        async def tried(name, call):
            try:
                await call()
                print(name, "did not raise", flush=True)
            except bowstring.Conflict as error:
                print(name, error, flush=True)

        async def anew():
            async with bowstring.aio.connect(address) as mine, mine.producer("orders") as own:
                return (await own.send(b"child")).topic

        async def main():
            async with bowstring.aio.connect(address) as client, client.producer("orders") as producer:
                reader = client.reader("orders")
                first = await reader.__anext__() if client.name else None
                await producer.send(b"parent")
                receipt = producer.send(b"under way")

                async def sent():
                    await producer.send(b"child")

                async def waited():
                    await receipt

                async def in_the_child():
                    await tried("topic", lambda: client.topic("orders"))
                    await tried("send", sent)
                    await tried("receipt", waited)
                    await tried("flush", producer.flush)
                    await tried("ready", producer.ready)
                    await tried("poll", lambda: reader.poll(1))
                    await tried("iteration", reader.__aiter__().__anext__)
                    await producer.close()
                    await client.close()
                    print(await anew(), flush=True)

                def work():
                    asyncio.run(in_the_child())
                    os._exit(7)

                print("exit", in_child(work))
                print((await receipt).topic, (await producer.send(b"after")).topic)
        asyncio.run(main())
    """
    *told, new, exited, parent = program(text, broker.address)
    assert [line.split()[0] for line in told] == "topic send receipt flush ready poll iteration".split()
    assert all("connections do not survive a fork" in line for line in told), told
    assert (new, exited, parent) == ("orders", "exit 7", "orders orders")


def test_a_child_connects_anew_while_the_parent_uses_its_own(broker: bowstring.Broker):
    """Again and again, while a thread of the parent publishes: a fork may come at any moment."""
    text = f"""
        client = bowstring.connect(address)
        producer = client.producer("orders")
        going = threading.Event()
        count = [0]

        def publish():
            while not going.is_set():
                producer.send(b"parent").result(30)
                count[0] += 1

        thread = threading.Thread(target=publish)
        thread.start()
        codes = {{in_child(lambda: publishes(b"child")) for _ in range({ROUNDS})}}
        before = count[0]
        producer.send(b"parent").result(30)
        going.set()
        thread.join()
        producer.close()
        client.close()
        print(codes, count[0] > 0)
    """
    assert program(text, broker.address) == ["{7} True"]


def test_collecting_the_parents_objects_in_the_child_leaves_its_sockets_alone(broker: bowstring.Broker):
    text = """
        client = bowstring.connect(address)
        producer = client.producer("orders")
        reader = iter(client.reader("orders", start="latest"))
        producer.send(b"before").result(30)
        next(reader)

        def work():
            global client, producer, reader
            connection = client._client._connection._channel._connection
            connection._write(b"nonsense")
            connection.transport.close()
            producer._producer._outbox._home._connection._channel._connection.abort()
            del connection, client, producer, reader
            gc.collect()

        print("exit", in_child(work))
        producer.send(b"after").result(30)
        print(next(reader).text(), client.topic("orders").name, producer.statistics().resent)
        client.close()
    """
    assert program(text, broker.address) == ["exit 7", "after orders 0"]


def test_a_child_does_not_keep_its_parents_connections_and_ports_open():
    """The child lives on; the parent's broker stops and takes the same port again."""
    text = """
        broker = bowstring.Broker.ephemeral()
        broker.start()
        client = broker.connect()
        client.create_topic("orders")
        reading, writing = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            signal.alarm(45)
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        port = broker.address
        client.close()
        broker.stop()
        try:
            bowstring.connect(port, timeout=0.2)
        except bowstring.Unavailable as error:
            print(error)
        again = bowstring.Broker.ephemeral(listen=port.removeprefix("bowstring://"))
        again.start()
        print(again.address == port)
        again.stop()
        os.close(writing)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    refused, *rest = program(text, "")
    assert "nothing listens there" in refused
    assert rest == ["True", "0"]


def test_a_child_has_a_broker_of_its_own(broker: bowstring.Broker):
    """Also where the parent has one, which commits all the time: a fork waits until SQLite's locks are free."""
    text = """
        def own():
            with bowstring.Broker.ephemeral() as mine, mine.connect() as client, client.producer("orders") as producer:
                assert producer.send(b"child").result(30).offset == 1
                assert [message.value for message in client.reader("orders", end="latest")] == [b"child"]

        with bowstring.Broker.ephemeral() as parents, parents.connect() as client, client.producer("orders") as producer:
            ended = threading.Event()

            def feed():
                while not ended.is_set():
                    producer.send(b"meanwhile").result(30)

            feeding = threading.Thread(target=feed)
            feeding.start()
            print({in_child(own) for _ in range(10)})
            ended.set()
            feeding.join()
            print(producer.send(b"after").result(30).topic)
    """
    assert program(text, broker.address) == ["{7}", "orders"]


def test_a_program_that_forks_before_it_connects(broker: bowstring.Broker):
    text = """
        import bowstring.client.sync_producer
        print("exit", in_child(lambda: publishes(b"each")))
        print(publishes(b"each"))
    """
    assert program(text, broker.address) == ["exit 7", "orders"]


def test_leaving_the_parents_with_block_in_the_child_does_nothing(broker: bowstring.Broker):
    text = """
        with bowstring.connect(address) as client, client.producer("orders") as producer, client.reader("orders") as reader:
            producer.send(b"parent")
            sys.stdout.flush()
            child = os.fork()
            if not child:
                signal.alarm(45)
                sys.exit(7)
            print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            print(producer.send(b"after").result(30).topic)
    """
    assert program(text, broker.address) == ["exit 7", "orders"]
