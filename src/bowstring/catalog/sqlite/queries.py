"""The SQL of the catalog, read from its files.

SQL is read best as SQL, so it lives in `sql/*.sql` and not in strings of Python. There are two
kinds of file. A migration, `0001_what_it_makes.sql`, takes a catalog from one format to the next;
the numbers are dense, and the last one is the format that this software reads and writes.
`queries.sql` holds all further statements: a line `-- name: commit` begins the query of that name,
and every other line that begins with `--` is a comment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

_NAME = re.compile(r"--\s*name:\s*(\w+)\s*")
_FOLDER = os.path.join(os.path.dirname(__file__), "sql")  # importlib.resources takes 20 ms to import
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    """One step from a format to the next: after it the format is `number`."""

    number: int
    name: str
    script: str


def parse_queries(text: str) -> dict[str, str]:
    """The queries of a file by their names. A name that comes twice, or SQL before the first name,
    is a mistake in the file.
    """
    lines: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if named := _NAME.fullmatch(line.strip()):
            name = named[1]
            if name in lines:
                raise ValueError(f"two queries are named {name}")
            lines[name] = []
        elif line.strip() and not line.lstrip().startswith("--"):
            if not name:
                raise ValueError(f"there is SQL before the first name: {line.strip()}")
            lines[name].append(line)
    if empty := [name for name, query in lines.items() if not query]:
        raise ValueError(f"there is no SQL under the name {empty[0]}")
    return {name: "\n".join(query) for name, query in lines.items()}


def parse_migrations(scripts: Iterable[tuple[str, str]]) -> list[Migration]:
    """The migrations in order, from (file name, script); files with other names are ignored.
    Numbers are dense from 1.
    """
    matches = [(match, script) for file, script in scripts if (match := _MIGRATION.fullmatch(file))]
    migrations = sorted(Migration(int(match[1]), match[2], script) for match, script in matches)
    if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"migrations are not numbered densely from 1: {[migration.number for migration in migrations]}")
    return migrations


@cache
def queries() -> Mapping[str, str]:
    """The named queries."""
    return parse_queries(_text("queries.sql"))


@cache
def migrations() -> tuple[Migration, ...]:
    """All the steps from nothing to the format of this software."""
    return tuple(parse_migrations((name, _text(name)) for name in os.listdir(_FOLDER) if name.endswith(".sql")))


def _text(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()
