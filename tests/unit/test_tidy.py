"""The house rules: the tree keeps them, and each of them catches what it is there for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tidy
from tidy_sizes import FILE_LINES_MAX, FUNCTION_LINES_MAX, RATCHET, check_sizes
from tidy_source import Source

EMPTY_RATCHET = "[files]\n[functions]\n"
LOADED_LATER = {"pyarrow", "grpc", "pyspark", "apsw", "bowstring.broker"}


def test_the_tree_keeps_the_house_rules() -> None:
    assert [str(violation) for violation in tidy.check_tree()] == []


def test_importing_bowstring_loads_nothing_heavy() -> None:
    program = "import sys, bowstring; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(tidy.ROOT / "src")}
    loaded = subprocess.run([sys.executable, "-c", program], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert "bowstring" in loaded
    assert LOADED_LATER.isdisjoint(loaded), f"`import bowstring` loads {sorted(LOADED_LATER.intersection(loaded))}"


# Words that the text rules look for are written in two halves here, because those rules read this file too.
# Each row: where the snippet stands (in src/bowstring unless it says otherwise), the rule that must object, the snippet.
BAD = [
    ("ports/disk.py", "imports-between-packages", "from bowstring.core import partition"),
    ("core/partition.py", "imports-between-packages", "from bowstring.ports.clock import Clock"),
    ("store/pages.py", "imports-between-packages", "import bowstring.catalog.sqlite.catalog"),
    ("store/pages.py", "imports-between-packages", "from ..broker import flusher"),
    ("store/pages.py", "imports-between-packages", "from bowstring import broker"),
    ("store/pages.py", "imports-between-packages", "import bowstring"),
    ("store/pages.py", "imports-between-packages", "from bowstring import connect"),
    ("broker/log/flusher.py", "imports-between-packages", "from bowstring.host.disk import LocalDisk"),
    ("broker/log/flusher.py", "imports-between-packages", "def f():\n    from bowstring.gateway import service"),
    ("wire/calls.py", "imports-between-packages", "from bowstring.broker.broker import Broker"),
    ("host/disk.py", "imports-between-packages", "from bowstring.messages import Batch"),
    ("client/producer.py", "imports-between-packages", "from bowstring.core import credit"),
    ("client/producer.py", "imports-between-packages", "if TYPE_CHECKING:\n    from bowstring.broker import Broker"),
    ("client/producer.py", "imports-between-packages", "import importlib\nimportlib.import_module('bowstring.gateway')"),
    ("cli/topics.py", "imports-between-packages", "from bowstring.broker import Broker"),
    ("cli/topics.py", "imports-between-packages", "from bowstring.embedded import Broker"),
    ("novelty/thing.py", "imports-between-packages", "x = 1"),
    ("core/ledger.py", "core-is-pure", "import asyncio"),
    ("core/ledger.py", "core-is-pure", "import logging"),
    ("core/ledger.py", "core-is-pure", "from os import path"),
    ("core/ledger.py", "core-is-pure", "from pathlib import PurePath"),
    ("core/ledger.py", "core-is-pure", "import pyarrow as pa"),
    ("core/ledger.py", "outside-modules", "import time"),
    ("core/ledger.py", "outside-modules", "from random import Random"),
    ("core/ledger.py", "outside-modules", "import uuid, threading"),
    ("core/ledger.py", "outside-names", "from datetime import datetime as d\nnow = d.now()"),
    ("core/ledger.py", "outside-files", "open('x')"),
    ("broker/log/flusher.py", "outside-modules", "import time"),
    ("broker/log/flusher.py", "outside-modules", "import concurrent.futures"),
    ("broker/log/flusher.py", "outside-modules", "def f():\n    import secrets"),
    ("broker/log/flusher.py", "outside-modules", "import apsw"),
    ("catalog/sqlite/catalog.py", "outside-modules", "import threading"),
    ("gateway/service.py", "outside-modules", "import grpc.aio"),
    ("client/producer.py", "outside-modules", "import threading"),
    ("client/sync.py", "outside-modules", "import random"),
    ("store/merged.py", "outside-modules", "from pyarrow import parquet"),
    ("broker/log/flusher.py", "outside-names", "import asyncio\nasync def f():\n    await asyncio.sleep(1)"),
    ("broker/log/flusher.py", "outside-names", "from asyncio import to_thread\nasync def f():\n    await to_thread(g)"),
    ("broker/log/flusher.py", "outside-names", "import asyncio\nnow = asyncio.get_event_loop().time()"),
    ("broker/log/flusher.py", "outside-names", "async def f(loop):\n    await loop.run_in_executor(None, g)"),
    ("broker/log/flusher.py", "outside-names", "import datetime as dt\nx = field(default_factory=dt.datetime.utcnow)"),
    ("broker/log/flusher.py", "outside-names", "import os\nos.replace('a', 'b')"),
    ("broker/log/flusher.py", "outside-names", "import os as o\no.urandom(8)"),
    ("broker/log/flusher.py", "outside-names", "from os import fsync\nfsync(3)"),
    ("broker/log/flusher.py", "outside-names", "from os.path import exists\nexists('a')"),
    ("broker/log/flusher.py", "outside-names", "import numpy as np\nx = np.random.default_rng()"),
    ("store/local.py", "outside-files", "with open('x') as f:\n    pass"),
    ("store/local.py", "outside-files", "def f(p):\n    return p.read_text()"),
    ("store/local.py", "outside-files", "from pathlib import Path\nPath('x').unlink()"),
    ("store/local.py", "outside-files", "from pathlib import Path\ndef f(p: Path | None):\n    q = p / 'x'\n    q.rename('y')"),
    ("store/local.py", "outside-files", "import pathlib\ndef f(self, p: pathlib.Path):\n    self.p = p\n    self.p.open()"),
    ("broker/log/positions.py", "only-the-actor-changes-machines", "def f(actor, change):\n    actor.partition.apply(change)"),
    ("broker/log/positions.py", "only-the-actor-changes-machines", "def f(actor, d):\n    taken = actor.partition\n    taken.take(d)"),
    ("broker/log/positions.py", "only-the-actor-changes-machines", "def f(one: Partition):\n    one.positions.apply(x)"),
    ("broker/upkeep/switch.py", "only-the-actor-changes-machines", "def f(partition):\n    partition.sealed(7, 100)"),
    ("broker/upkeep/switch.py", "only-the-actor-changes-machines", "def f(partition):\n    partition.next_offset = 7"),
    ("broker/upkeep/sealer.py", "only-the-actor-changes-machines", "def f(partition):\n    partition.sealed_end += 7"),
    ("broker/upkeep/sealer.py", "only-the-actor-changes-machines", "def f(a):\n    a.partition.deletions.add(runs, freed=True)"),
    ("broker/upkeep/retention.py", "only-the-actor-changes-machines", "def f(self, change):\n    self._flusher.add(change)"),
    ("gateway/messages.py", "only-the-actor-changes-machines", "def f(actor):\n    actor.partition.alter(window=7)"),
    ("broker/flush_utils.py", "names-say-something", "x = 1"),
    ("store/base.py", "names-say-something", "x = 1"),
    ("client/helpers/rows.py", "names-say-something", "x = 1"),
    ("broker/log/flusher.py", "no-print", "print('here')"),
    ("broker/log/flusher.py", "no-leftovers", "x = 1  # TODO: the rest"),
    ("broker/log/flusher.py", "no-swallowed-errors", "try:\n    f()\nexcept:\n    raise"),
    ("broker/log/flusher.py", "no-swallowed-errors", "try:\n    f()\nexcept Exception:\n    pass"),
    ("broker/log/flusher.py", "no-swallowed-errors", "try:\n    f()\nexcept (OSError, BaseException):\n    ..."),
    ("broker/log/flusher.py", "no-swallowed-errors", "import contextlib\nwith contextlib.suppress(Exception):\n    f()"),
    ("broker/log/flusher.py", "syntax", "def f(:"),
    ("broker/log/flusher.py", "lines-fit", "x = '" + "a" * 140 + "'"),
    ("/tests/unit/test_a.py", "tests-never-sleep", "import time\ntime.sleep(1)"),
    ("/tests/unit/test_a.py", "tests-never-sleep", "from time import sleep as nap\nnap(1)"),
    ("/tests/unit/test_a.py", "tests-skip-with-reason", "import pytest\npytest.skip()"),
    ("/tests/unit/test_a.py", "tests-skip-with-reason", "import pytest\n@pytest.mark.skip\ndef test_a(): ..."),
    ("/tests/unit/test_a.py", "tests-skip-with-reason", "import pytest\n@pytest.mark.xfail(reason=' ')\ndef test_a(): ..."),
    ("/tests/unit/test_a.py", "tests-skip-with-reason", "from pytest import mark\n@mark.skipif('windows')\ndef test_a(): ..."),
    ("/docs/guide.md", "lines-fit", "a" * 141),
    ("/docs/guide.md", "no-machine-in-the-text", "Look at /" "home/ada/notes."),
    ("/Makefile", "no-machine-in-the-text", "PYTHON = /" "root/python"),
    ("/requirements.lock", "no-machine-in-the-text", "--extra-ind" "ex-url somewhere"),
    ("/requirements.lock", "no-machine-in-the-text", "thing @ https:" "//example.org/thing"),
    ("/clients/js/package-lock.json", "no-machine-in-the-text", '"reso' 'lved": "https://example.org/a"'),
    ("/docs/guide.md", "no-machine-in-the-text", "Fetch https:" "//example.org/thing-1.0.whl first."),
]  # fmt: skip

# What looks like it, and is right.
GOOD = [
    ("core/ledger.py", "import numpy, datetime\nfrom bowstring.errors import Corrupt\nfrom bowstring.core.keys import Key"),
    ("host/clock.py", "import time\nfrom bowstring.ports.clock import Clock\nnow = time.monotonic()"),
    ("host/disk.py", "import os\nos.fsync(3)\nopen('x')"),
    ("wire/grpc_server.py", "import grpc, time"),
    ("catalog/sqlite/catalog.py", "import apsw"),
    ("client/sync.py", "import threading\nfrom concurrent.futures import Future"),
    ("cli/serve.py", "from bowstring.broker import Broker\nfrom bowstring.host import disk\nprint('listening')"),
    ("cli/topics.py", "import bowstring\nfrom bowstring import connect"),
    ("embedded.py", "from bowstring.broker import broker\nfrom bowstring.host import disk"),
    ("__init__.py", "def __getattr__(name):\n    from bowstring.client import sync\n    from bowstring import embedded"),
    ("settings.py", "import os\ndef f(environment=os.environ):\n    return os.path.join('a', os.fspath('b'))"),
    ("store/local.py", "from bowstring.ports.disk import Disk\ndef f(disk: Disk):\n    disk.unlink('x')\n    disk.open('x')"),
    ("store/local.py", "from pathlib import Path\ndef f(p: Path):\n    return p.parent / p.name"),
    ("store/local.py", "def open(name): ...\nopen('x')"),
    ("catalog/migrations.py", "from importlib.resources import files\nfor f in sorted(files('bowstring').iterdir()):\n    f.read_text()"),
    ("broker/log/flusher.py", "def f(random, time):\n    random.bytes(8), time.sleep(1)"),
    ("broker/log/flusher.py", "try:\n    f()\nexcept OSError:\n    pass\nexcept Exception as error:\n    raise Bug from error"),
    ("broker/database.py", "x = 1"),
    ("broker/log/actor.py", "def f(self, d):\n    self.partition.take(d)\n    self._flusher.add(1)"),
    ("broker/log/loader.py", "def f(partition):\n    partition.replay(1, 2)\n    partition.sealed_end = 7"),
    ("broker/log/positions.py", "def f(actor, names, ids):\n    names.add(actor.partition.positions.get('x'))\n    ids.add(7)"),
    ("broker/upkeep/switch.py", "def f(actor, usage):\n    actor.sealed(7, 100)\n    usage.add(actor.partition.pages.segments())"),
    ("client/pages.py", "def f(partition):\n    partition.next_offset = 7"),
    ("wire/generated/calls_pb2.py", "import time\n" + "a" * 200),
    ("/tests/unit/test_a.py", "import pytest, time\npytest.skip('no strace here')\ntime.monotonic()"),
    ("/tests/unit/test_a.py", "import pytest\n@pytest.mark.skipif(X, reason=WHY)\ndef test_a(): ..."),
    ("/docs/guide.md", "| " + "a" * 200 + " |"),
    ("/docs/guide.md", "See https:" "//example.org/home/guide.html, in ./work/ or ~/home/."),
]  # fmt: skip


def source(place: str, text: str) -> Source:
    return Source(place[1:] if place.startswith("/") else f"src/bowstring/{place}", text + "\n")


@pytest.mark.parametrize(("place", "rule", "text"), BAD)
def test_a_rule_catches(place: str, rule: str, text: str) -> None:
    assert rule in {violation.rule for violation in tidy.check(source(place, text))}


@pytest.mark.parametrize(("place", "text"), GOOD)
def test_no_rule_objects_to(place: str, text: str) -> None:
    assert [str(violation) for violation in tidy.check(source(place, text))] == []


def test_every_rule_has_a_snippet_that_breaks_it() -> None:
    rules = {rule.__name__.replace("_", "-") for rule in tidy.PYTHON_RULES + tidy.TEXT_RULES}
    assert rules <= {rule for _, rule, _ in BAD}


def test_a_violation_says_where_and_what_would_be_right() -> None:
    (violation,) = tidy.check(source("broker/log/flusher.py", "x = 1\nimport time"))
    assert str(violation).startswith("src/bowstring/broker/log/flusher.py:2: outside-modules: time is the outside world; take a port")


# ---- sizes -----------------------------------------------------------------------------------------------------------


def file_of(lines: int) -> Source:
    return Source("src/bowstring/core/ledger.py", "x = 1\n" * lines)


def function_of(lines: int) -> Source:
    return Source("src/bowstring/core/ledger.py", "class A:\n    def f(self):\n" + "        x = 1\n" * (lines - 1))


def complaints(subject: Source, ratchet: str) -> list[str]:
    return [str(violation) for violation in check_sizes([subject], ratchet)]


def test_files_and_functions_up_to_the_limit_are_fine() -> None:
    assert complaints(file_of(FILE_LINES_MAX), EMPTY_RATCHET) == []
    assert complaints(function_of(FUNCTION_LINES_MAX), EMPTY_RATCHET) == []


def test_one_line_more_is_too_much() -> None:
    assert "ledger.py has 401 lines" in complaints(file_of(FILE_LINES_MAX + 1), EMPTY_RATCHET)[0]
    assert "ledger.py:A.f has 61 lines" in complaints(function_of(FUNCTION_LINES_MAX + 1), EMPTY_RATCHET)[0]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [(450, None), (451, "grew from 450 to 451"), (449, "lower the ratchet"), (400, "take it out of the ratchet")],
)
def test_what_is_in_the_ratchet_only_shrinks(lines: int, complaint: str | None) -> None:
    found = complaints(file_of(lines), '[files]\n"src/bowstring/core/ledger.py" = 450\n[functions]\n')
    assert [complaint in text for text in found] == ([True] if complaint else [])


def test_the_ratchet_holds_for_functions_too() -> None:
    ratchet = '[files]\n[functions]\n"src/bowstring/core/ledger.py:A.f" = 70\n'
    assert complaints(function_of(70), ratchet) == []
    assert "grew from 70 to 71" in complaints(function_of(71), ratchet)[0]


def test_the_ratchet_forgets_what_is_gone() -> None:
    (complaint,) = complaints(file_of(1), '[files]\n"src/bowstring/core/gone.py" = 450\n[functions]\n')
    assert complaint == f"{RATCHET}:1: size: src/bowstring/core/gone.py is gone; take it out of the ratchet"
