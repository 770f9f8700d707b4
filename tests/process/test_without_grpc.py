"""gRPC is an extra: kit, commands and broker do without it, and say how to install it where it is asked for."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

import pytest

import bowstring
from tests.process.serving import environment

LIMIT_SECONDS = 60
BLOCKED = """
import importlib.abc, sys

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("grpc", "grpc_health", "grpc_reflection", "grpc_status"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
"""
USES = """
import bowstring
with bowstring.Broker.ephemeral(http="127.0.0.1:0") as broker, broker.connect() as client:
    with client.producer("orders") as producer:
        producer.send(b"one coffee", key="k").result(30)
    print([message.text() for message in client.reader("orders", end="latest")])
"""
LISTS = """
import sys
from bowstring.cli.main import run
sys.argv = ["bowstring", "topic", "list", "--server", {address!r}]
print(run())
"""
INSTALL = "Install it: pip install 'bowstring[grpc]'."


def program(text: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", textwrap.dedent(text)]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)


def output(text: str) -> str:
    ended = program(text)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize("name", ["import", "use", "list"])
def test_the_default_path_does_not_import_grpc(name: str):
    with bowstring.Broker.ephemeral() as broker:
        text = {"import": "import bowstring, bowstring.aio", "use": USES, "list": LISTS.format(address=broker.address)}[name]
        told = output(text + "\nprint(sorted(name for name in __import__('sys').modules if name.startswith('grpc')))")
    assert told.splitlines()[-1] == "[]"


def test_a_broker_and_a_kit_work_where_grpc_is_not_installed():
    assert output(BLOCKED + USES) == "['one coffee']\n"


def test_a_grpc_address_says_what_is_missing():
    told = output(
        BLOCKED
        + """
import bowstring
try:
    bowstring.connect("grpc://127.0.0.1:1")
except bowstring.NotSupported as error:
    print(error)
"""
    )
    assert told == f"the address grpc://127.0.0.1:1 needs gRPC, which is not installed here. {INSTALL}\n"


def test_a_setting_for_grpc_says_what_is_missing():
    told = output(
        BLOCKED
        + """
import bowstring
from bowstring import preflight, settings
for check in (lambda: bowstring.Broker.ephemeral(grpc_listen="127.0.0.1:0").start(),
              lambda: preflight.check(settings.load(settings.from_keywords({"store": "memory", "grpc_listen": "127.0.0.1:0"})))):
    try:
        check()
    except bowstring.NotSupported as error:
        print(error)
"""
    )
    assert told == 2 * f'grpc.listen = "127.0.0.1:0" needs gRPC, which is not installed here. {INSTALL}\n'


def test_a_grpc_client_of_such_a_broker_is_told_in_a_goaway():
    text = (
        BLOCKED
        + """
import bowstring, sys
with bowstring.Broker.ephemeral() as broker:
    print(broker.address.removeprefix("bowstring://"), flush=True)
    sys.stdin.read()
"""
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        host, _, port = serving.stdout.readline().strip().rpartition(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_SECONDS) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            answered = b""
            while piece := client.recv(4096):
                answered += piece
        serving.communicate("", timeout=LIMIT_SECONDS)
    assert answered.endswith(f"this client needs gRPC, which is not installed here. {INSTALL}".encode())
