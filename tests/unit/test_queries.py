"""The SQL files: what is a query, what is a migration, and that those which the package has are in order."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from bowstring.catalog.sqlite.queries import Migration, migrations, parse_migrations, parse_queries, queries


def test_a_query_begins_at_its_name_and_ends_at_the_next():
    text = "-- about this file\n\n-- name: one\nSELECT 1\n\nFROM one;\n-- about two\n--name:two\nSELECT 2;\n"
    assert parse_queries(text) == {"one": "SELECT 1\nFROM one;", "two": "SELECT 2;"}


def test_a_file_with_comments_only_has_no_queries():
    assert parse_queries("-- nothing yet\n\n") == {}


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;", "two queries are named one"),
        ("SELECT 1;\n-- name: one\nSELECT 1;", "before the first name"),
        ("-- name: one\n-- to be written\n-- name: two\nSELECT 2;", "no SQL under the name one"),
    ],
)
def test_a_mistake_in_a_file_is_told(text: str, mistake: str):
    with pytest.raises(ValueError, match=mistake):
        parse_queries(text)


def test_migrations_come_in_the_order_of_their_numbers_and_other_files_are_none():
    scripts = [("0002_more.sql", "b"), ("queries.sql", "q"), ("0001_first.sql", "a"), ("0003.sql", "c")]
    assert parse_migrations(scripts) == [Migration(1, "first", "a"), Migration(2, "more", "b")]


@pytest.mark.parametrize("names", [["0002_second.sql"], ["0001_a.sql", "0003_c.sql"], ["0001_a.sql", "0001_b.sql"]])
def test_numbers_that_are_not_dense_are_refused(names: list[str]):
    with pytest.raises(ValueError, match="densely from 1"):
        parse_migrations([(name, "") for name in names])


def test_the_package_has_its_migrations():
    assert [migration.number for migration in migrations()] == list(range(1, len(migrations()) + 1))
    assert "CREATE TABLE journal" in migrations()[0].script


def test_every_query_is_asked_for_and_every_one_that_is_asked_for_is_there():
    folder = files("bowstring.catalog.sqlite")
    text = "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in ("catalog", "database", "extents", "journal"))
    asked = set(re.findall(r'(?:sql|queries\(\))\["(\w+)"\]', text)) | set(re.findall(r'(?:ask|run|run_all)\(connection, "(\w+)"', text))
    in_a_loop = {"drop_partitions", "drop_tombstone", "drop_topic"}
    assert asked | in_a_loop == set(queries())
