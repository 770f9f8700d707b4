"""Commands run in this process, which is much faster than a child for each: their arguments, stdin and environment in, exit code and what
they print out. What only a real process shows (pipes, signals, start-up) is tested with `serving.command`."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import bowstring
from bowstring.cli import main


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: bytes
    said: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What it printed, as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def text(self) -> str:
        return self.out.decode()


class Commander:
    """Runs commands for one broker."""

    def __init__(self, server: str, home: str) -> None:
        self._variables = {"BOWSTRING_SERVER": server, "HOME": home, "XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/data"}

    def __call__(
        self, *arguments: str, stdin: bytes | str = b"", variables: Mapping[str, str] | None = None, terminal: bool = False
    ) -> Ended:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BOWSTRING_")}
        given = stdin.encode() if isinstance(stdin, str) else stdin
        with (
            mock.patch.dict(os.environ, {**kept, **self._variables, **(variables or {})}, clear=True),
            mock.patch.object(sys, "argv", ["bowstring", *arguments]),
            streams(given, Typed if terminal else io.TextIOWrapper) as (out, said),
        ):
            code = main.run()
            sys.stdout.flush()
            sys.stderr.flush()
            return Ended(code, out.getvalue(), said.getvalue().decode())

    def done(self, *arguments: str, **further: Any) -> Ended:
        """One that ends well, without a word on stderr."""
        ended = self(*arguments, **further)
        assert (ended.code, ended.said) == (0, "")
        return ended


def commanding(broker: bowstring.Broker, home: Path, **partitions: int) -> Iterator[Commander]:
    """For a fixture: commands for a broker that has topics of so many partitions; in the end all of its topics are deleted."""
    with broker.connect() as client:
        for name, count in partitions.items():
            client.create_topic(name, partitions=count)
        yield Commander(broker.address, str(home))
        for topic in list(client.topics()):
            client.delete_topic(topic.name, missing_ok=True)  # a dead-letter topic goes with its own


class Typed(io.TextIOWrapper):
    """A stdin that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def streams(given: bytes, stdin: type[io.TextIOWrapper]) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, said = io.BytesIO(), io.BytesIO()
    with (
        mock.patch.object(sys, "stdin", stdin(io.BytesIO(given))),
        mock.patch.object(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8", write_through=True)),
        mock.patch.object(sys, "stderr", io.TextIOWrapper(said, encoding="utf-8", write_through=True)),
    ):
        yield out, said
