"""gRPC's C library has a log of its own, which goes to stderr past Python. Users see none of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.process.serving import environment, run

SCRIPTS = {
    "a broker that is away": """
        for address in ("127.0.0.1:1", "nowhere.invalid:1"):
            try:
                bowstring.connect(f"bowstring://{address}", timeout=1)
            except bowstring.Unavailable:
                print("away")
    """,
    "a broker that goes": """
        broker = bowstring.Broker.ephemeral()
        broker.start()
        client = broker.connect(timeout=1)
        producer = client.producer("orders", timeout=1)
        producer.send(b"x").result(30)
        broker.kill()
        try:
            client.topic("orders")
        except bowstring.Unavailable:
            print("away")
        os._exit(0)
    """,
    "a fork": """
        with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
            client.create_topic("orders")
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            print(client.topic("orders").name)
    """,
    "an end without closing": """
        broker = bowstring.Broker.ephemeral()
        broker.start()
        client = broker.connect()
        print(client.create_topic("orders").name)
    """,
    "a port that cannot be had": """
        try:
            bowstring.Broker.ephemeral(listen="unix:/nowhere/socket").start()
        except bowstring.Unavailable:
            print("refused")
    """,
}


@pytest.mark.parametrize("story", SCRIPTS)
def test_users_see_nothing_of_it(story: str):
    lines = ["import os, bowstring", *(line.removeprefix("        ") for line in SCRIPTS[story].splitlines())]
    variables = environment()
    variables.pop("GRPC_VERBOSITY", None)
    variables.pop("GRPC_ENABLE_FORK_SUPPORT", None)
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_server_that_is_none(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as web:

        def answer() -> None:
            connection, _ = web.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        answering = threading.Thread(target=answer)
        answering.start()
        done = run("topic", "list", "--server", f"127.0.0.1:{web.getsockname()[1]}", "--timeout", "1s", variables={"HOME": str(tmp_path)})
        answering.join()
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
