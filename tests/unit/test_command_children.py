"""What a command learns of its message, and what its end means for the message: `consume --exec`."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bowstring import errors
from bowstring.cli.children import Children, variables


class Message:
    """A message that remembers how it was settled."""

    topic, partition, offset, retry_count = "orders", 3, 17, 2

    def __init__(
        self, value: bytes | None = b"one coffee", key: bytes | None = b"customer-42", refused: errors.Error | None = None
    ) -> None:
        self.value = value
        self.key = key
        self.id = "order-7"
        self.attributes = {"country": "CH", "note": 'a "b"\n'}
        self.settled: list[Any] = []
        self._refused = refused

    def ack(self) -> Any:
        return self._receipt("ack")

    def nack(self, *, reason: str) -> Any:
        return self._receipt("nack", reason)

    def reject(self, reason: str) -> Any:
        return self._receipt("reject", reason)

    def _receipt(self, *settled: str) -> Any:
        self.settled = list(settled)

        def result() -> None:
            if self._refused is not None:
                raise self._refused

        return SimpleNamespace(result=result)


class Scene:
    """A command, and what it has said and done."""

    def __init__(self, line: str) -> None:
        self.told: list[str] = []
        self.failures: list[errors.Error] = []
        self.children = Children(line, self.told.append, self.failures.append)

    def run(self, message: Message) -> list[Any]:
        self.children.work(message)
        return message.settled


def test_the_message_is_stdin_and_variables(capfd: pytest.CaptureFixture[str]):
    assert Scene("cat; env | grep ^BOWSTRING_ | sort").run(Message()) == ["ack"]
    value, *lines = capfd.readouterr().out.replace("coffee", "coffee\n", 1).splitlines()
    assert value == "one coffee"
    shown = dict(line.split("=", 1) for line in lines)
    assert json.loads(shown.pop("BOWSTRING_ATTRIBUTES")) == {"country": "CH", "note": 'a "b"\n'}
    assert shown == {
        "BOWSTRING_TOPIC": "orders",
        "BOWSTRING_PARTITION": "3",
        "BOWSTRING_OFFSET": "17",
        "BOWSTRING_ID": "order-7",
        "BOWSTRING_KEY": "customer-42",
        "BOWSTRING_RETRY_COUNT": "2",
    }


def test_a_message_without_a_key_has_no_variable_for_it(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.setenv("BOWSTRING_KEY", "of a command around this one")
    assert Scene('echo "key: ${BOWSTRING_KEY-none}"').run(Message(key=None)) == ["ack"]
    assert capfd.readouterr().out == "key: none\n"


@pytest.mark.parametrize("key", [b"\xff\xfe", b"a\0b"])
def test_a_key_that_no_variable_can_hold_is_base64(key: bytes):
    shown = variables(Message(key=key))["BOWSTRING_KEY"]
    assert list(json.loads(shown)) == ["base64"]


@pytest.mark.parametrize(
    ("line", "settled", "told"),
    [
        ("exit 0", ["ack"], []),
        ("exit 65", ["reject", "the command ended with exit code 65"], ["3@17 is rejected: the command ended with exit code 65."]),
        ("exit 1", ["nack", "the command ended with exit code 1"], ["3@17 is given back: the command ended with exit code 1."]),
        ("kill -9 $$", ["nack", "the command was ended by SIGKILL"], ["3@17 is given back: the command was ended by SIGKILL."]),
    ],
)
def test_the_exit_code_decides(line: str, settled: list[str], told: list[str]):
    scene = Scene(line)
    assert (scene.run(Message()), scene.told, scene.failures) == (settled, told, [])


def test_a_command_that_is_not_there_ends_the_work():
    scene = Scene("no-such-command-anywhere 2> /dev/null")
    assert scene.run(Message())[0] == "nack"
    assert str(scene.failures[0]) == "the command cannot be run: it ended with exit code 127. Try it in a shell."


def test_a_message_that_does_not_fit_into_variables_ends_the_work():
    message = Message()
    message.attributes = {"long": "x" * 200_000}
    scene = Scene("exit 0")
    assert scene.run(message)[0] == "nack"
    assert str(scene.failures[0]) == "the command cannot be run for 3@17: Argument list too long."


def test_a_command_that_does_not_read_its_input_is_none_the_worse():
    assert Scene("exit 0").run(Message(value=b"x" * 1_000_000)) == ["ack"]


def test_a_lost_lease_is_told():
    scene = Scene("exit 0")
    scene.run(Message(refused=errors.LeaseLost("the lease ended.", hint="Ask for a longer lease=.")))
    assert scene.told == ["3@17 could not be settled: the lease ended. Ask for a longer lease=."]
    assert scene.children.counts["lost"] == 1


def test_a_signal_reaches_a_command_with_all_that_it_has_started():
    scene = Scene("sleep 1000 & sleep 1000")
    messages = [Message(), Message()]
    threads = [threading.Thread(target=scene.run, args=(message,)) for message in messages]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(scene.children._running) == 2)
    scene.children.signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert [message.settled for message in messages] == [["nack", "the command was ended by SIGTERM"]] * 2


def test_no_command_begins_after_the_signal():
    scene = Scene("sleep 1000")
    scene.children.signal(signal.SIGINT)
    assert scene.run(Message())[0] == "nack"


def wait_until(done: Callable[[], bool]) -> None:
    while not done():
        pass
