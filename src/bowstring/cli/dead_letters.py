"""`bowstring dead-letters list|show|redrive|purge`: messages that a subscription has given up on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors, times
from bowstring.cli import commands
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.letter_table import print_letters
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, check_can_ask, json_text, many, note, progress
from bowstring.cli.refused_messages import raise_refused
from bowstring.cli.subscription import Name, Topic, Where, named

if TYPE_CHECKING:
    from bowstring.client.letters import LetterMessages, LetterPlan
    from bowstring.client.message import Message
    from bowstring.client.receipts import Answers
    from bowstring.client.sync import Client

SHOWN = frozenset(f"bowstring-{name}" for name in ("reason", "retry-count", "consumer", "ended"))
"""Attributes that `show` does not repeat: they are fields of a letter."""
HELP = """Messages that a subscription has given up on: list, show, redrive, purge.

Examples:

\b
  bowstring dead-letters list orders billing
  bowstring dead-letters redrive orders billing --reason timeout --rate 100
"""
LIST_HELP = """Lists the dead letters of a subscription that no consumer has acked since, by partition
and offset in their topic, with the reason and the last delivery. Those that were sent back and are not
settled yet are `redriven`.

Examples:

\b
  bowstring dead-letters list orders billing --reason timeout
  bowstring dead-letters list orders billing --where "key = 'a'" -o json
"""
SHOW_HELP = """Shows one dead letter whole: its value, where it came from, why it died, and its last
delivery.

Examples:

\b
  bowstring dead-letters show orders billing order-7
  bowstring dead-letters show orders billing order-7 -o json | jq -r .value
"""
REDRIVE_HELP = """Sends dead letters back to their subscription, and to no other: all, or those that are
chosen by --id, --reason or --where. Its consumers get them again; readers of the topic see nothing.

It takes what is dead when it begins, and each letter once. A message that fails again is a dead letter
again, and has to be sent back anew.

Examples:

\b
  bowstring dead-letters redrive orders billing --id order-7
  bowstring dead-letters redrive orders billing --where "key = 'a'" --dry-run
  bowstring dead-letters redrive orders billing --rate 100 --limit 10000
"""
PURGE_HELP = """Deletes dead letters for good: all, or those that are chosen by --id, --reason or
--where. What was sent back stays: settle it, or wait until it dies again. On a terminal it asks first;
elsewhere it needs --yes.

Examples:

\b
  bowstring dead-letters purge orders billing --id order-7 --yes
  bowstring dead-letters purge orders billing --reason "no account" --dry-run
"""
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Only those that failed for this reason.", show_default=False)]
Limit = Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="At most this many.", show_default=False)]
Ids = Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="This message; may be given again.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    group = commands.group("dead-letters", HELP)
    group.command("list", help=LIST_HELP)(list_letters)
    group.command("show", help=SHOW_HELP)(show)
    group.command("redrive", help=REDRIVE_HELP)(redrive)
    group.command("purge", help=PURGE_HELP)(purge)
    app.add_typer(group)


def list_letters(
    topic: Topic,
    subscription: Name,
    reason: Reason = None,
    where: Where = None,
    limit: Limit = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client, named():
        for page in client._letters(topic, subscription, _filter(reason, where), limit):  # pyright: ignore[reportPrivateUsage]
            _print(printer, page)


def show(
    topic: Topic,
    subscription: Name,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the message.")],
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client, named():
        page = client._letter(topic, subscription, id)  # pyright: ignore[reportPrivateUsage]
    (letter,) = page.messages
    facts = {**row(letter, page), **_whole(letter)}
    if printer.is_data:
        return printer.objects([facts])
    attributes = {name: value for name, value in facts.pop("attributes").items() if name not in SHOWN}
    facts["redriven"] = "yes" if facts["redriven"] else "no"
    rows = [(name.replace("_", " "), value) for name, value in (*facts.items(), *attributes.items())]
    return printer.table({"field": "left", "value": "wrap"}, rows)


def redrive(
    topic: Topic,
    subscription: Name,
    id: Ids = None,
    reason: Reason = None,
    where: Where = None,
    rate: Annotated[str | None, typer.Option(metavar="N", help="At most so many a second.", show_default=False)] = None,
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would be sent back.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    from bowstring.client.letters import answers_of

    printer, pace = Printer(output), _rate(rate)
    with connect(server, context, timeout) as client, named():
        plan = _plan(client, topic, subscription, id, _filter(reason, where), limit)
        if dry_run:
            return _tell(printer, topic, subscription, "redriven", answers_of(plan), id, dry_run=True)
        with progress("redriving", of="messages") as told:
            answers = client._redrive(topic, subscription, plan, pace, told)  # pyright: ignore[reportPrivateUsage]
    return _tell(printer, topic, subscription, "redriven", answers, id)


def purge(
    topic: Topic,
    subscription: Name,
    id: Ids = None,
    reason: Reason = None,
    where: Where = None,
    limit: Limit = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    from bowstring.client.letters import answers_of

    printer = Printer(output)
    check_can_ask("a purged dead letter does not come back", yes=yes or dry_run)
    with connect(server, context, timeout) as client, named():
        plan = _plan(client, topic, subscription, id, _filter(reason, where), limit)
        count = len(plan.places) - len(plan.refused)
        if dry_run:
            return _tell(printer, topic, subscription, "purged", answers_of(plan), id, dry_run=True)
        if count and not yes and not typer.confirm(f"Delete {many(count, 'dead letter')} of '{subscription}'?", err=True):
            return note("Nothing was deleted.")
        with progress("purging", of="messages") as told:
            answers = client._purge(topic, subscription, plan, told)  # pyright: ignore[reportPrivateUsage]
    return _tell(printer, topic, subscription, "purged", answers, id)


# What is chosen


def _filter(reason: str | None, where: str | None) -> str | None:
    if reason is None:
        return where
    quoted = reason.replace("'", "''")
    given = f"attributes['bowstring-reason'] = '{quoted}'"
    return given if where is None else f"({where}) and {given}"


def _rate(text: str | None) -> float | None:
    from bowstring.client.letters import checked_rate

    try:
        return None if text is None else checked_rate(float(text))
    except ValueError:
        raise errors.InvalidArgument(f"--rate {text} is not valid.", hint="Use messages a second, above 0.") from None


def _plan(client: Client, topic: str, subscription: str, ids: list[str] | None, where: str | None, limit: int | None) -> LetterPlan:
    if ids and (where is not None or limit is not None):
        raise errors.InvalidArgument("--id does not go with --reason, --where or --limit.", hint="Name the messages, or choose them.")
    return client._plan(topic, subscription, ids, where, limit)  # pyright: ignore[reportPrivateUsage]


# What is printed


def _tell(
    printer: Printer, topic: str, subscription: str, done: str, answers: Answers, ids: list[str] | None, *, dry_run: bool = False
) -> None:
    """Prints with how many letters something was done, and raises why not with others."""
    count = answers.ok.true_count
    if count or not answers.refused:
        if printer.is_data:
            printer.objects([{"topic": topic, "subscription": subscription, done: count, "dry_run": dry_run}])
        else:
            printer.line(f"{many(count, 'dead letter')} {'would be ' if dry_run else ''}{done}.")
    raise_refused(answers, ids or [])


def row(letter: Message, page: LetterMessages) -> dict[str, Any]:
    """A dead letter as JSON."""
    facts = letter.attributes
    return {
        "id": letter.id,
        "partition": letter.partition,
        "offset": letter.offset,
        "reason": facts.get("bowstring-reason"),
        "retry_count": int(facts.get("bowstring-retry-count", 0)),
        "consumer": facts.get("bowstring-consumer"),
        "ended": facts.get("bowstring-ended"),
        "redriven": (letter.partition, letter.offset) in page.redriven,
    }


def _whole(letter: Message) -> dict[str, Any]:
    return {
        "topic": letter.topic,
        "key": json_text(letter.key),
        "value": json_text(letter.value),
        "created": times.to_text(times.moment(letter.created, "created")),
        "producer_group": letter.producer_group,
        "attributes": dict(letter.attributes),
    }


def _print(printer: Printer, page: LetterMessages) -> None:
    rows = [row(letter, page) for letter in page.messages]
    if printer.is_data:
        return printer.objects(rows)
    return print_letters(printer, rows) if rows else None
