"""`bowstring topic create|list|describe|alter|delete`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors, settings, times
from bowstring.cli import commands, completing
from bowstring.cli.connecting import Context, Server, Timeout, connect, span
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, check_can_ask, note, size

if TYPE_CHECKING:
    from bowstring.client.sync import Client
    from bowstring.client.topics import Topic

HELP = """Topics: create, list, describe, alter, delete.

Examples:

\b
  bowstring topic create orders --partitions 4 --retention 30d
  bowstring topic list 'orders.*'
  bowstring topic describe orders
  bowstring topic alter orders --retention 7d --retention-bytes 10GiB
  bowstring topic delete orders --yes
"""
CREATE_HELP = """Makes a topic.

Without --retention the broker's setting topic.retention applies: 7 days unless changed. An id that
is published again within --deduplication is stored once; without the flag the setting
topic.deduplication applies: 10 minutes unless changed, and at most the retention. With --exists-ok
an existing topic stays as it is.

Examples:

\b
  bowstring topic create orders
  bowstring topic create clicks --partitions 8 --retention-bytes 50GiB
  bowstring topic create orders --exists-ok     no error if it is there
"""
LIST_HELP = """Lists topics with their counts, by name. PATTERN is a glob; quote it.

Examples:

\b
  bowstring topic list
  bowstring topic list 'orders.*' -o json
"""
DESCRIBE_HELP = """Shows all about topics: settings, counts, and the offsets of each partition.

Examples:

\b
  bowstring topic describe orders
  bowstring topic describe orders -o json | jq .retention
"""
ALTER_HELP = """Changes the given settings of a topic, and no others. `--retention-bytes none`
removes the limit.

A retention below the deduplication window shortens the window too, until the retention is longer
again.

Examples:

\b
  bowstring topic alter orders --retention 30d
  bowstring topic alter orders --retention-bytes none
"""
DELETE_HELP = """Deletes topics and all their messages. On a terminal it asks first; elsewhere it
needs --yes.

Examples:

\b
  bowstring topic delete orders
  bowstring topic delete orders clicks --yes --missing-ok
"""
PARTITIONS_SHOWN = 1000
PAGE = 500
"""Rows of a table that are printed together; they decide the widths of its columns."""

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completing.topics)]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.", autocompletion=completing.topics)]
Retention = Annotated[str | None, typer.Option(metavar="SPAN", help="How long messages are kept: 7d, 12h, forever.", show_default=False)]
RetentionBytes = Annotated[
    str | None, typer.Option(metavar="SIZE", help="The largest size over all partitions: 10GiB, or none.", show_default=False)
]
Deduplication = Annotated[str | None, typer.Option(metavar="SPAN", help="How long an id is recognised: 10m.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    group = commands.group("topic", HELP)
    group.command("create", help=CREATE_HELP)(create)
    group.command("list", help=LIST_HELP)(list_topics)
    group.command("describe", help=DESCRIBE_HELP)(describe)
    group.command("alter", help=ALTER_HELP)(alter)
    group.command("delete", help=DELETE_HELP)(delete)
    app.add_typer(group)


def create(
    name: Name,
    partitions: Annotated[int | None, typer.Option(metavar="N", help="How many partitions. [default: 1]", show_default=False)] = None,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    deduplication: Deduplication = None,
    exists_ok: Annotated[bool, typer.Option("--exists-ok", help="A topic that is there already is no error.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    given = _given(retention, retention_bytes, deduplication)
    with connect(server, context, timeout) as client:
        topic = client.create_topic(name, partitions=1 if partitions is None else partitions, exists_ok=exists_ok, **given)
    _print_one(printer, topic)
    _note_differences(topic, {"partitions": partitions, **given})


def _note_differences(topic: Topic, given: dict[str, Any]) -> None:
    """Warns if an existing topic differs from what was asked for."""
    for name, wanted in given.items():
        found = getattr(topic, name)
        found = times.keeping(found, name) if isinstance(found, timedelta) else found
        if wanted is not None and wanted != found:
            note(f"'{topic.name}' was there already: {name} is {_shown(name, found)}, not {_shown(name, wanted)}.")


def _shown(name: str, value: Any) -> str:
    if name in ("retention", "deduplication"):
        return times.span_to_text(value)
    return "none" if value is None else f"{value:,}"


def list_topics(
    pattern: Annotated[str | None, typer.Argument(metavar="PATTERN", help="A glob such as 'orders.*'.", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.", show_default=False)] = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    page: list[Topic] = []
    with connect(server, context, timeout) as client:
        for number, topic in enumerate(client.topics(pattern)):
            if limit is not None and number >= limit:
                break
            page.append(topic)
            if len(page) == PAGE:
                _print_list(printer, page)
                page.clear()
    _print_list(printer, page)


def describe(
    names: Names,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client:
        for number, name in enumerate(names):
            topic = client.topic(name)
            if number and not printer.is_data:
                printer.line()
            _print_whole(printer, topic)


def alter(
    name: Name,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    deduplication: Deduplication = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    given = _given(retention, retention_bytes, deduplication)
    if not given:
        raise errors.InvalidArgument("nothing to change was given.", hint="Give --retention, --retention-bytes or --deduplication.")
    with connect(server, context, timeout) as client:
        topic = client.alter_topic(name, **given)
    _print_one(printer, topic)


def delete(
    names: Names,
    missing_ok: Annotated[bool, typer.Option("--missing-ok", help="A topic that is not there is no error.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    check_can_ask("deleting a topic deletes its messages", yes=yes)
    with connect(server, context, timeout) as client:
        for name in names:
            if yes or _sure(client, name, missing_ok=missing_ok):
                client.delete_topic(name, missing_ok=missing_ok)
                _say(printer, name)


def _sure(client: Client, name: str, *, missing_ok: bool) -> bool:
    try:
        topic = client.topic(name)
    except errors.TopicNotFound:
        if missing_ok:
            return False
        raise
    sure = typer.confirm(f"Delete '{name}' with {topic.messages:,} messages ({size(topic.bytes)})?", err=True)
    if not sure:
        note(f"'{name}' was left as it is.")
    return sure


def _say(printer: Printer, name: str) -> None:
    if printer.is_data:
        printer.objects([{"name": name, "deleted": True}])
    else:
        printer.line(f"{name} is deleted.")


def _given(retention: str | None, retention_bytes: str | None, deduplication: str | None) -> dict[str, Any]:
    """The given settings, as the kit takes them."""
    given: dict[str, Any] = {}
    if retention is not None:
        given["retention"] = times.keeping_from_text(retention, "--retention")
    if retention_bytes is not None:
        given["retention_bytes"] = None if retention_bytes == "none" else settings.size_from_text(retention_bytes, "--retention-bytes")
    if deduplication is not None:
        given["deduplication"] = span(deduplication, "--deduplication")
    return given


# What is printed


def row(topic: Topic) -> dict[str, Any]:
    """A topic as JSON: the names of the Python face."""
    return {
        "name": topic.name,
        "partitions": topic.partitions,
        "messages": topic.messages,
        "bytes": topic.bytes,
        "created": times.to_text(times.moment(topic.created, "created")),
        "retention": None if topic.retention == timedelta.max else topic.retention.total_seconds(),
        "retention_bytes": topic.retention_bytes,
        "deduplication": topic.deduplication.total_seconds(),
        "id": topic.id,
        "ranges": [{"first": offsets.start, "next": offsets.stop} for offsets in topic.ranges],
    }


def _print_one(printer: Printer, topic: Topic) -> None:
    if printer.is_data:
        printer.objects([row(topic)])
    else:
        limit = "" if topic.retention_bytes is None else f" or {size(topic.retention_bytes)}"
        many = "1 partition" if topic.partitions == 1 else f"{topic.partitions:,} partitions"
        kept = times.span_to_text(topic.retention.total_seconds())
        printer.line(f"{topic.name}: {many}, keeps {kept}{limit}, {topic.messages:,} messages")


def _print_list(printer: Printer, topics: list[Topic]) -> None:
    if printer.is_data:
        return printer.objects(map(row, topics))
    if topics:
        columns = {"topic": "cut", "partitions": "right", "messages": "right", "size": "right", "keeps": "right", "created": "left"}
        printer.table(columns, [_cells(topic) for topic in topics])
    return None


def _cells(topic: Topic) -> tuple[object, ...]:
    keeps = times.span_to_text(topic.retention.total_seconds())
    created = f"{topic.created:%Y-%m-%d %H:%M}"
    return topic.name, f"{topic.partitions:,}", f"{topic.messages:,}", size(topic.bytes), keeps, created


def _print_whole(printer: Printer, topic: Topic) -> None:
    if printer.is_data:
        return printer.objects([row(topic)])
    _print_one(printer, topic)
    told = f"id {topic.id}, created {times.to_text(times.moment(topic.created, 'created'))}, {size(topic.bytes)}"
    printer.line(f"{told}, recognises ids for {times.span_to_text(topic.deduplication.total_seconds())}")
    printer.line()
    shown = topic.ranges[:PARTITIONS_SHOWN]
    rows = [(number, f"{offsets.start:,}", f"{offsets.stop:,}") for number, offsets in enumerate(shown)]
    printer.table({"partition": "right", "first offset": "right", "next offset": "right"}, rows)
    if len(shown) < topic.partitions:
        note(f"These are the first {len(shown):,} partitions; -o json has them all.")
    return None
