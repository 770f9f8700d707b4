"""HTTP of a broker: health, the version, and the port; real requests to a real server."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.host.clock import SystemClock
from bowstring.http import address
from bowstring.http import server as http_server
from bowstring.http.server import HttpServer
from bowstring.server import Server
from bowstring.settings import from_keywords, load
from bowstring.version import VERSION
from tests.process.browsing import get
from tests.process.serving import environment, run, serving

HTTP = "127.0.0.1:0"


def test_an_embedded_broker_has_no_http_unless_it_is_asked_for():
    with bowstring.Broker.ephemeral() as broker:
        assert broker.http_address is None
    with bowstring.Broker.ephemeral(http=HTTP) as broker:
        assert broker.http_address is not None
        assert get(f"{broker.http_address}/version").content == {"name": "bowstring", "version": VERSION}
    assert broker.http_address is None


def test_a_broker_without_http_loads_nothing_for_it():
    code = """
import sys, bowstring
with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
    client.create_topic("orders")
loaded = {name.split(".")[0] for name in sys.modules} & {"starlette", "uvicorn", "prometheus_client", "anyio", "h11"}
assert not loaded and "bowstring.http" not in sys.modules, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_broker_that_serves_is_alive_and_ready():
    with bowstring.Broker.ephemeral(http=HTTP) as broker:
        for page, state in (("livez", "alive"), ("readyz", "serving")):
            answer = get(f"{broker.http_address}/{page}")
            assert (answer.status, answer.content) == (200, {"status": state})
            assert answer.headers["cache-control"] == "no-store"
            assert not [name for name in answer.headers if name.startswith("access-control") or name == "server"]


def test_what_is_not_there_and_what_is_not_taken_is_refused_in_json():
    with bowstring.Broker.ephemeral(http=HTTP) as broker:
        missing = get(f"{broker.http_address}/metric")
        assert missing.status == 404
        assert missing.content == {
            "kind": "not-found",
            "message": "there is no /metric.",
            "hint": "There are /metrics, /livez, /readyz, /version.",
        }
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            refused = get(f"{broker.http_address}/metrics", method)
            assert refused.status == 405
            assert refused.content == {"kind": "not-supported", "message": f"{method} is not allowed at /metrics.", "hint": "Use GET."}
            assert "GET" in refused.headers["allow"]
        assert get(f"{broker.http_address}/livez", "HEAD").text == ""


def test_bytes_that_are_no_request_do_no_harm():
    with bowstring.Broker.ephemeral(http=HTTP) as broker:
        assert broker.http_address is not None
        host, _, port = broker.http_address.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as stranger:
            stranger.sendall(os.urandom(1000) + b"\r\n\r\n")
            assert b"400" in stranger.recv(1000)
        assert get(f"{broker.http_address}/livez").status == 200


async def test_a_broker_that_loads_is_alive_and_not_ready():
    settings = load(from_keywords({"store": "memory", "listen": "127.0.0.1:0", "http": HTTP}))
    http = HttpServer(Server(settings, SystemClock()), settings)
    http.start()
    try:
        alive = await asyncio.to_thread(get, f"{http.url}/livez")
        assert (alive.status, alive.content) == (200, {"status": "alive"})
        ready = await asyncio.to_thread(get, f"{http.url}/readyz")
        assert (ready.status, ready.content) == (503, {"status": "loading", "reason": "the broker is starting."})
        text = (await asyncio.to_thread(get, f"{http.url}/metrics")).text
        assert "\nbowstring_ready 0.0\n" in text
        assert "\nbowstring_flushes_total 0" not in text
    finally:
        await http.stop()


async def test_a_full_disk_is_told_but_turns_no_reader_away(tmp_path: Path):
    async with bowstring.aio.Broker(data=tmp_path, http=HTTP, upkeep_seconds=3600) as broker:
        reserve = broker._running().broker.serving.surroundings.reserve
        assert reserve is not None
        await reserve.give_up()  # what happens when the catalog has no room left
        ready = await asyncio.to_thread(get, f"{broker.http_address}/readyz")
        assert (ready.status, ready.content["status"]) == (200, "full")
        assert "the disk is full" in ready.content["reason"]
        assert "\nbowstring_disk_full 1.0\n" in (await asyncio.to_thread(get, f"{broker.http_address}/metrics")).text


async def test_a_broker_whose_disk_has_failed_is_neither_alive_nor_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with bowstring.aio.Broker(data=tmp_path, http=HTTP, flush_inline_bytes=0) as broker, broker.connect() as client:
        await client.create_topic("orders")
        monkeypatch.setattr(os, "fdatasync", fail)
        async with client.producer("orders", timeout=1) as producer:
            with pytest.raises(errors.Error):
                await producer.send(b"x")
        for page in ("livez", "readyz"):
            answer = await asyncio.to_thread(get, f"{broker.http_address}/{page}")
            assert (answer.status, answer.content["status"]) == (503, "failed")
            assert "Input/output error" in answer.content["reason"]


async def test_a_flush_that_hangs_is_told(tmp_path: Path):
    async with bowstring.aio.Broker(data=tmp_path, http=HTTP, clock="manual") as broker, broker.connect() as client:
        await client.create_topic("orders")
        server = broker._running()
        begun, reached = asyncio.Event(), asyncio.Event()
        commit = server.broker._catalog.commit

        async def held(*arguments: object) -> None:
            reached.set()
            await begun.wait()
            await commit(*arguments)  # pyright: ignore[reportArgumentType]

        server.broker._catalog.commit = held  # pyright: ignore[reportAttributeAccessIssue]
        async with client.producer("orders") as producer:
            producer.send(b"x")
            await reached.wait()
            assert broker.time is not None
            broker.time.set_forward(11)
            ready = await asyncio.to_thread(get, f"{broker.http_address}/readyz")
            begun.set()
        assert (ready.status, ready.content["status"]) == (503, "stuck")
        assert "under way for 11 s" in ready.content["reason"]


async def test_a_loop_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_server, "ANSWER_SECONDS", 0.2)
    async with bowstring.aio.Broker.ephemeral(http=HTTP) as broker:
        await asyncio.to_thread(get, f"{broker.http_address}/livez")
        for page in ("livez", "readyz"):
            answer = get(f"{broker.http_address}/{page}")  # here, so this loop does nothing else meanwhile
            assert (answer.status, answer.content["status"]) == (503, "hanging")
        assert get(f"{broker.http_address}/metrics").status == 503
        assert (await asyncio.to_thread(get, f"{broker.http_address}/livez")).status == 200


async def test_a_broker_that_stops_is_not_ready():
    settings = load(from_keywords({"store": "memory", "listen": "127.0.0.1:0", "http": HTTP}))
    server = Server(settings, SystemClock())
    await server.start()
    await server.stop()
    assert server.readiness()[:2] == (False, "stopping")


def test_a_restarted_broker_has_its_http_where_it_was(tmp_path: Path):
    with bowstring.Broker(data=tmp_path, http=HTTP) as broker:
        before = broker.http_address
        broker.restart()
        assert broker.http_address == before
        assert get(f"{before}/readyz").status == 200


def test_a_port_in_use_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"port {port} on 127.0.0.1, where HTTP should be, is in use by another program."
        with pytest.raises(errors.Unavailable, match=re.escape(said)):
            bowstring.Broker.ephemeral(http=f"127.0.0.1:{port}").start()
        ended = run("serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{port}")
        assert (ended.returncode, ended.stdout) == (3, "")
        assert said in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_a_port_that_nobody_named_may_be_another_one():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with address.bind(f"127.0.0.1:{port}", exactly=False) as found:
            assert found.getsockname()[1] not in (0, port)


@pytest.mark.parametrize("wrong", ["27770", "localhost", "::1:27770", "127.0.0.1:99999", "http://127.0.0.1:27770", "", "unix:/tmp/http"])
def test_an_address_that_is_none_is_wrong_usage(wrong: str):
    for more in ((), ("--check",)):
        ended = run("serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", wrong, *more)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert re.search(f'--http = "{re.escape(wrong)}" is not a(n address| place for HTTP)', ended.stderr)
        assert 'Use "127.0.0.1:27770"' in ended.stderr


def test_a_check_knows_whether_the_port_can_be_had():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run("serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", http, "--check")
        assert (ended.returncode, ended.stdout) == (3, "")
        assert "where HTTP should be, is in use" in ended.stderr
    assert run("serve", "--store", "memory", "--listen", "127.0.0.1:0", "--http", http, "--check").returncode == 0


def test_serve_says_where_http_is():
    with serving("--store", "memory", "--quiet") as served:
        assert served.process.stdout is not None
        said = re.fullmatch(r"metrics and health are on (http://127\.0\.0\.1:\d+)\n", served.process.stdout.readline())
        assert said is not None
        assert get(f"{said[1]}/readyz").status == 200
        assert served.end() == (0, "")


def test_serve_without_http_says_nothing_of_it():
    with serving("--store", "memory", "--http", "off", "--quiet") as served:
        served.process.terminate()
        assert served.process.communicate(timeout=60) == ("", "")


def test_a_broker_ends_while_somebody_keeps_a_connection(tmp_path: Path):
    with serving("--store", "memory", "--quiet") as served:
        assert served.process.stdout is not None
        host, _, port = served.process.stdout.readline().strip().rpartition("http://")[2].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in connection.recv(1000)
            assert served.end() == (0, "")


def test_the_environment_switches_http_off():
    variables = environment({"BOWSTRING_HTTP": "off"})
    assert load(from_keywords({"http": variables["BOWSTRING_HTTP"]})).http == "off"
    with serving("--store", "memory", variables={"BOWSTRING_HTTP": "off"}) as served:
        served.process.terminate()
        assert served.process.communicate(timeout=60)[0] == ""
