"""Servers and pools that fork their workers, as people run them: workers connect for themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import bowstring
from tests.process import ephemeral
from tests.process.forking import LIMIT_SECONDS, program
from tests.process.serving import environment


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 1}, topic_create="on-request")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(broker: bowstring.Broker, tmp_path, method: str):
    script = tmp_path / "work.py"
    script.write_text(
        f"""
import multiprocessing, warnings, bowstring
warnings.simplefilter("ignore")
def work(number):
    with bowstring.connect({broker.address!r}) as client, client.producer("orders") as producer:
        return producer.send(b"%d" % number).result(30).topic
if __name__ == "__main__":
    with bowstring.connect({broker.address!r}) as client, client.producer("orders") as producer:
        producer.send(b"parent").result(30)
        with multiprocessing.get_context({method!r}).Pool(2) as pool:
            print(pool.map(work, range(4)))
        print(producer.send(b"parent").result(30).topic)
"""
    )
    ended = subprocess.run([sys.executable, script], env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert (ended.stdout, ended.stderr) == ("['orders', 'orders', 'orders', 'orders']\norders\n", "")


def test_a_prefork_pool_whose_tasks_share_a_client_for_each_process(broker: bowstring.Broker):
    """As Celery's workers do: the parent has published tasks, each worker keeps one client."""
    text = """
        from collections import Counter

        def client_of_this_process(known={}):
            if os.getpid() not in known:
                known[os.getpid()] = bowstring.connect(address)
            return known[os.getpid()]

        def task(number):
            with client_of_this_process().producer("orders") as producer:
                producer.send(b"%d" % number).result(30)
            return os.getpid()

        parent = task(0)
        with multiprocessing.get_context("fork").Pool(3, maxtasksperchild=5) as pool:
            done = Counter(pool.map(task, range(30), chunksize=1))
        print(sum(done.values()), parent in done, max(done.values()) <= 5, task(1) == parent)
    """
    assert program(text, broker.address) == ["30 False True True"]


def test_a_server_that_loads_its_program_before_it_forks(broker: bowstring.Broker):
    """As `gunicorn --preload` does: the program connects when it is loaded, and its workers connect
    again. A worker that ends is replaced by another fork.
    """
    text = """
        app = bowstring.connect(address)                         # at import, in the master
        counter = app.producer("orders")
        counter.send(b"master is up").result(30)

        def worker():
            global app, counter
            try:
                counter.send(b"with the master's producer")
            except bowstring.Conflict:
                app = bowstring.connect(address)                 # post_fork
                counter = app.producer("orders")
            for number in range(20):
                counter.send(b"request")
            counter.flush()                                      # and ends without closing anything

        before = app.topic("orders").messages
        print([in_child(worker) for _ in range(4)])
        print(app.topic("orders").messages - before)
        print(counter.send(b"master goes on").result(30).topic)
        app.close()
    """
    assert program(text, broker.address) == ["[7, 7, 7, 7]", "80", "orders"]
