"""The client in Go (tests/go_client), built, as tests use it.

It is built in a copy: the wire code is generated from the schema each time, so there is none in the repository that could grow stale,
and the generators are pinned by the module's own go.mod and go.sum. A first build takes a minute or two; later ones are in Go's cache.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "go_client"
SCHEMA = "bowstring/v1/bowstring.proto"
GENERATORS = ("google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc")
MODULE = "bowstring.test/client"
BUILD_SECONDS = 1200
CALL_SECONDS = 120


class Ended(NamedTuple):
    """A run of the program that is over."""

    code: int
    rows: list[dict[str, Any]]
    failure: dict[str, Any]


class GoClient:
    """The program, once it is built."""

    def __init__(self, program: Path) -> None:
        self._program = str(program)

    def text(self, *arguments: str) -> str:
        done = subprocess.run([self._program, *arguments], capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def __call__(self, *arguments: str, rows: list[dict[str, Any]] | None = None) -> Ended:
        given = "".join(json.dumps(row) + "\n" for row in rows or [])
        done = subprocess.run([self._program, *arguments], input=given, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
        failure = json.loads(done.stderr) if done.returncode else {}
        return Ended(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], failure)

    @contextmanager
    def steps(self, *arguments: str) -> Iterator[Steps]:
        """A consumer that does what it is told, for the length of a block."""
        with subprocess.Popen(
            [self._program, "steps", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield Steps(process)
            finally:
                process.kill()


class Steps:
    """A consumer in Go, step by step."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.answer()

    def ask(self, do: str, **fields: Any) -> None:
        """Tells it what to do, and does not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise ClientFailed(json.loads(self._process.stderr.read()))
        found: dict[str, Any] = json.loads(line)
        return found

    def do(self, do: str, **fields: Any) -> dict[str, Any]:
        self.ask(do, **fields)
        return self.answer()

    def end(self) -> int:
        """Closes the consumer; gives the exit code."""
        self.do("close")
        return self._process.wait(CALL_SECONDS)


class ClientFailed(Exception):
    """The program has ended with an error, which is the argument."""


def built(folder: Path) -> GoClient:
    """Builds it there; skips the test where that cannot be."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go here: install Go 1.26 or newer to try the client in Go")
    shutil.copytree(SOURCE, folder)
    fetched = subprocess.run(["go", "mod", "download"], cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if fetched.returncode:
        pytest.skip(f"the modules of the client in Go cannot be fetched here: {fetched.stderr.strip().splitlines()[-1]}")
    _run(folder, "go", "build", "-o", "generators/", *GENERATORS)
    options = f"module={MODULE},M{SCHEMA}={MODULE}/wire"
    plugins = [f"--plugin={folder}/generators/{name.rpartition('/')[2]}" for name in GENERATORS]
    targets = [f"--go_out={folder}", f"--go_opt={options}", f"--go-grpc_out={folder}", f"--go-grpc_opt={options}"]
    _run(folder, sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", *plugins, *targets, SCHEMA)
    _run(folder, "go", "build", "-o", "client", ".")
    return GoClient(folder / "client")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
