"""`bowstring subscription create|list|describe|alter|delete`: the queues of topics."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors, times
from bowstring.cli import commands, completing, failing
from bowstring.cli.connecting import Context, Server, Timeout, connect, span
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, age, check_can_ask, many, note
from bowstring.cli.place import OffsetOrTime, place, told_as_given
from bowstring.cli.seek import SEEK_HELP, seek

if TYPE_CHECKING:
    from bowstring.client.subscriptions import ConsumerInfo, Subscription
    from bowstring.client.sync import Client

HELP = """Subscriptions, the queues of a topic: create, list, describe, alter, seek, delete.

Every subscription of a topic sees all of its messages, whatever the others do. Its consumers share
them: each message is leased to one consumer at a time, until one has acked it.

Examples:

\b
  bowstring subscription create orders billing
  bowstring subscription list orders
  bowstring subscription describe orders billing
  bowstring subscription alter orders billing --lease 5m
  bowstring subscription seek orders billing --to -1h --dry-run
  bowstring consume orders billing
"""
CREATE_HELP = """Makes a subscription. Consumers make a missing one themselves; this command makes it
before there is a consumer, or with other settings.

--start is `beginning` (the default: nothing is missed), `latest`, or a moment: `2026-11-15T09:00Z`,
`-1h`. --lease is how long a consumer holds a message unless it extends the lease: 1s to 24h. With
--exists-ok an existing subscription stays as it is.

With --mode key_shared the messages of a key go to one consumer at a time, in order. --where takes
some messages only: a filter over key, attributes and times. Both stay as they are created.

After --max-deliveries (10, or `never`) a message goes to the topic --dead-letters. --backoff is how
long a message waits that failed: at first, factor, at most. --unsettled says what becomes of
messages that retention reaches before they are settled: `drop`, `dead_letter`, or `keep` for
--keep-max.

Examples:

\b
  bowstring subscription create orders billing
  bowstring subscription create orders audit --start latest --lease 5m
  bowstring subscription create orders mail --mode key_shared
  bowstring subscription create orders push --backoff 1s,2,5m
  bowstring subscription create orders ch --where "attributes.country = 'CH'"
  bowstring subscription create orders billing --exists-ok
"""
LIST_HELP = """Lists subscriptions with their backlogs, by topic and name: all of them, or those of
TOPIC.

Examples:

\b
  bowstring subscription list
  bowstring subscription list orders -o json
"""
DESCRIBE_HELP = """Shows all about a subscription: how many messages are not settled and how old the
oldest of them is, what was delivered and settled in the last minute, and the leases of each
consumer and partition.

Examples:

\b
  bowstring subscription describe orders billing
  bowstring subscription describe orders billing -o json | jq .backlog
  watch -n 1 bowstring subscription describe orders billing -o table
"""
ALTER_HELP = """Changes the given settings of a subscription, and no others. Leases that run keep
their end.

Examples:

\b
  bowstring subscription alter orders billing --lease 5m
  bowstring subscription alter orders billing --backoff none
"""
DELETE_HELP = """Deletes a subscription: it forgets what is settled and what is not, and its
consumers end. The messages stay in the topic. On a terminal it asks first; elsewhere it needs
--yes.

Examples:

\b
  bowstring subscription delete orders billing
  bowstring subscription delete orders billing --yes --missing-ok
"""
LEASE_SECONDS = (1, 86_400)
PARTITIONS_SHOWN = 64
CONSUMERS_SHOWN = 64
START_RIGHT = 'Use "beginning", "latest", "2026-11-15T09:00Z" or "-1h".'

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completing.topics)]
Name = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription.", autocompletion=completing.subscriptions)]
Lease = Annotated[str | None, typer.Option(metavar="SPAN", help="How long a message is held: 30s, 5m.", show_default=False)]
Mode = Annotated[str | None, typer.Option(metavar="MODE", help="shared, or key_shared: a key to one consumer.", show_default=False)]
Where = Annotated[str | None, typer.Option(metavar="EXPR", help="Only messages that pass this filter.", show_default=False)]
Start = Annotated[
    str | None, typer.Option(metavar="PLACE", help="Where it begins: beginning, latest, a moment. [default: beginning]", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    group = commands.group("subscription", HELP)
    group.command("create", help=CREATE_HELP)(create)
    group.command("list", help=LIST_HELP)(list_subscriptions)
    group.command("describe", help=DESCRIBE_HELP)(describe)
    group.command("alter", help=ALTER_HELP)(alter)
    group.command("seek", help=SEEK_HELP)(seek)
    group.command("delete", help=DELETE_HELP)(delete)
    app.add_typer(group)


def create(
    topic: Topic,
    name: Name,
    mode: Mode = None,
    start: Start = None,
    lease: Lease = None,
    where: Where = None,
    max_deliveries: failing.MaxDeliveries = None,
    backoff: failing.BackoffSpans = None,
    dead_letters: failing.DeadLetters = None,
    unsettled: failing.Unsettled = None,
    keep_max: failing.KeepMax = None,
    exists_ok: Annotated[bool, typer.Option("--exists-ok", help="A subscription that is there already is no error.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    given = settings(mode, start, lease) | failing.given(max_deliveries, backoff, dead_letters, unsettled, keep_max)
    given |= {} if where is None else {"where": where}
    with connect(server, context, timeout) as client, told_as_given(start=start, backoff=backoff), named("name"):
        subscription = client.create_subscription(topic, name, exists_ok=exists_ok, **given)
    _print_one(printer, subscription)
    if exists_ok and lease is not None and subscription.lease.total_seconds() != given["lease"]:
        found = times.span_to_text(subscription.lease.total_seconds())
        note(f"'{name}' was there already: lease is {found}, not {times.span_to_text(given['lease'])}.")


def list_subscriptions(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Only those of this topic.", autocompletion=completing.topics, show_default=False)
    ] = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client:
        found = list(client.subscriptions(topic))
    if printer.is_data:
        printer.objects(map(row, found))
    elif found:
        columns = {"topic": "cut", "name": "cut", "mode": "left", "lease": "right"}
        columns |= {"backlog": "right", "oldest": "right", "leased": "right", "consumers": "right"}
        printer.table(columns, [_cells(each) for each in found])


def describe(
    topic: Topic,
    name: Name,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    with connect(server, context, timeout) as client, named("name"):
        _print_whole(printer, client.subscription(topic, name))


def alter(
    topic: Topic,
    name: Name,
    lease: Lease = None,
    max_deliveries: failing.MaxDeliveries = None,
    backoff: failing.BackoffSpans = None,
    dead_letters: failing.DeadLetters = None,
    unsettled: failing.Unsettled = None,
    keep_max: failing.KeepMax = None,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    given = settings(None, None, lease) | failing.given(max_deliveries, backoff, dead_letters, unsettled, keep_max)
    if not given:
        raise errors.InvalidArgument("nothing to change was given.", hint="Give --lease, --max-deliveries or another setting.")
    with connect(server, context, timeout) as client, told_as_given(backoff=backoff), named("name"):
        _print_one(printer, client.alter_subscription(topic, name, **given))


def delete(
    topic: Topic,
    name: Name,
    missing_ok: Annotated[bool, typer.Option("--missing-ok", help="A subscription that is not there is no error.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    check_can_ask("a deleted subscription forgets what is settled", yes=yes)
    with connect(server, context, timeout) as client, named("name"):
        if not yes and not _sure(client, topic, name, missing_ok=missing_ok):
            return None
        client.delete_subscription(topic, name, missing_ok=missing_ok)
    if printer.is_data:
        return printer.objects([{"topic": topic, "name": name, "deleted": True}])
    return printer.line(f"{name} of {topic} is deleted.")


def _sure(client: Client, topic: str, name: str, *, missing_ok: bool) -> bool:
    try:
        found = client.subscription(topic, name)
    except errors.NotFound:
        if missing_ok:
            return False
        raise
    consumers = sum(consumer.connected for consumer in found.consumers)
    at_work = f" and {many(consumers, 'consumer')} at work" if consumers else ""
    asked = f"Delete '{name}' of '{topic}', with {many(found.backlog, 'message')} not settled{at_work}?"
    sure = typer.confirm(asked, err=True)
    if not sure:
        note(f"'{name}' was left as it is.")
    return sure


def settings(mode: str | None, start: str | None, lease: str | None) -> dict[str, Any]:
    """The given settings of a subscription, as the kit takes them."""
    given: dict[str, Any] = {"mode": mode, "start": _start(start), "lease": lease_seconds(lease)}
    return {name: value for name, value in given.items() if value is not None}


def lease_seconds(text: str | None) -> float | None:
    """How long a lease lasts."""
    if text is None:
        return None
    seconds = span(text, "--lease")
    if not LEASE_SECONDS[0] <= seconds <= LEASE_SECONDS[1]:
        what = "shorter than a second" if seconds < LEASE_SECONDS[0] else "longer than a day"
        raise errors.InvalidArgument(f'--lease = "{text}" is {what}.', hint="A lease lasts from 1s to 24h.")
    return seconds


@contextmanager
def named(argument: str = "subscription") -> Generator[None]:
    """Makes errors of the kit about the name of a subscription say SUBSCRIPTION: it is no flag
    here. `argument` is what the kit calls it.
    """
    try:
        yield
    except errors.InvalidArgument as error:
        if not error.message.startswith(f"{argument}="):
            raise
        raise errors.InvalidArgument(f"SUBSCRIPTION {error.message.removeprefix(f'{argument}=')}", hint=error.hint) from None


def _start(text: str | None) -> Any:
    """Where a subscription begins. It has one beginning for all partitions, so it cannot be an
    offset.
    """
    try:
        found = place(text, "--start")
    except errors.InvalidArgument as error:
        if "is not a place in a topic" not in error.message or "For that time" in error.hint:
            raise
        raise errors.InvalidArgument(f'--start = "{text}" is not a start of a subscription.', hint=START_RIGHT) from None
    if isinstance(found, OffsetOrTime):
        return times.to_datetime(times.from_unix(found))
    if isinstance(found, int | dict):
        raise errors.InvalidArgument(f'--start = "{text}" is an offset, and a subscription has none to begin at.', hint=START_RIGHT)
    return found


# What is printed


def row(subscription: Subscription) -> dict[str, Any]:
    """A subscription as JSON: the names of the Python face."""
    return {
        "topic": subscription.topic,
        "name": subscription.name,
        "mode": subscription.mode,
        "lease": subscription.lease.total_seconds(),
        "max_deliveries": subscription.max_deliveries,
        "backoff": subscription.backoff,
        "dead_letters": subscription.dead_letters,
        "unsettled": subscription.unsettled,
        "keep_max": None if subscription.keep_max is None else subscription.keep_max.total_seconds(),
        "where": subscription.where,
        "created": _moment(subscription.created),
        "backlog": subscription.backlog,
        "leased": subscription.leased,
        "oldest": subscription.oldest,
        "overtaken": subscription.overtaken,
        "dead": subscription.dead,
        "redriven": subscription.redriven,
        "rates": asdict(subscription.rates),
        "partitions": list(map(asdict, subscription.partitions)),
        "consumers": list(map(asdict, subscription.consumers)),
        "id": subscription.id,
    }


def _moment(moment: datetime) -> str:
    return times.to_text(times.moment(moment, "created"))


def _print_one(printer: Printer, subscription: Subscription) -> None:
    if printer.is_data:
        printer.objects([row(subscription)])
    else:
        printer.line(f"{_headline(subscription)}, {many(subscription.backlog, 'message')} not settled")


def _headline(each: Subscription) -> str:
    return f"{each.name} of {each.topic}: {each.mode}, lease {times.span_to_text(each.lease.total_seconds())}"


def _cells(each: Subscription) -> tuple[object, ...]:
    oldest = None if each.oldest is None else age(each.oldest)
    lease = times.span_to_text(each.lease.total_seconds())
    consumers = sum(consumer.connected for consumer in each.consumers)
    return each.topic, each.name, each.mode, lease, f"{each.backlog:,}", oldest, f"{each.leased:,}", f"{consumers:,}"


def _print_whole(printer: Printer, each: Subscription) -> None:
    if printer.is_data:
        return printer.objects([row(each)])
    printer.line(f"{_headline(each)}, id {each.id}, created {each.created:%Y-%m-%d %H:%M}")
    printer.line(failing.told(each))
    if each.where:
        printer.line(f"only messages for which {each.where}")
    oldest = "" if each.oldest is None else f", the oldest {age(each.oldest)} old"
    printer.line(f"{many(each.backlog, 'message')} not settled{oldest}, {each.leased:,} leased")
    rates = ", ".join(f"{rate:,.1f} {what}" for what, rate in asdict(each.rates).items())
    if each.overtaken:
        printer.line(f"{many(each.overtaken, 'message')} expired before they were settled")
    if each.dead:
        sent_back = f", {each.redriven:,} of them sent back" if each.redriven else ""
        printer.line(f"{many(each.dead, 'dead letter')}{sent_back}: bowstring dead-letters list {each.topic} {each.name}")
    printer.line(f"{rates}: a second, in the last minute")
    if each.consumers:
        printer.line()
        columns = {"consumer": "cut", "connected from": "cut", "leased": "right", "credit": "right"}
        rows = [(one.name, _address(one), f"{one.leased:,}", _credit(one)) for one in each.consumers[:CONSUMERS_SHOWN]]
        printer.table(columns, rows)
    printer.line()
    columns = {"partition": "right", "settled below": "right", "next to deliver": "right", "backlog": "right", "leased": "right"}
    shown = each.partitions[:PARTITIONS_SHOWN]
    printer.table(columns, [(one.partition, f"{one.floor:,}", f"{one.cursor:,}", f"{one.backlog:,}", f"{one.leased:,}") for one in shown])
    _note_more({"partitions": (len(each.partitions), PARTITIONS_SHOWN), "consumers": (len(each.consumers), CONSUMERS_SHOWN)})
    return None


def _note_more(counts: Mapping[str, tuple[int, int]]) -> None:
    for what, (found, shown) in counts.items():
        if found > shown:
            note(f"These are the first {shown:,} of {found:,} {what}; -o json has them all.")


def _address(consumer: ConsumerInfo) -> str | None:
    return (consumer.address or "yes") if consumer.connected else None


def _credit(consumer: ConsumerInfo) -> str | None:
    if not consumer.connected:
        return None
    return f"{consumer.credit:,}" if consumer.credit else "paused"
