"""`bowstring consume TOPIC SUBSCRIPTION`: takes messages from a queue, and acks what it has printed,
or what a command has done.

It goes on until Ctrl-C, until --limit, or until nothing has come for --idle. However it ends, it
settles what is done, and gives back what is not: messages that were not printed come again as if
they had never been delivered.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bowstring import errors
from bowstring.cli.connecting import Context, Server, Timeout, connect, seconds_of, span
from bowstring.cli.interrupts import Ended, Endings
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import many, note
from bowstring.cli.place import told_as_given
from bowstring.cli.read import Form_, absences_told, nobody_reads
from bowstring.cli.subscription import Mode, Name, Start, Topic, Where, named, settings

if TYPE_CHECKING:
    from bowstring.cli.forms import OutputForm
    from bowstring.client.leased_batch import LeasedBatch
    from bowstring.client.leased_message import LeasedMessage
    from bowstring.client.sync import Client
    from bowstring.client.sync_consumer import Consumer

HELP = """Takes messages from a queue: leases them, prints them, and acks what it has printed.

It goes on until Ctrl-C; --limit and --idle end it before. An ack is sent when the message has left
for stdout: behind a pipe that closes, messages that were not printed are given back, and come again
as if they had never been delivered. --no-ack gives back all that it has printed, too, when it ends.

--exec runs a command (by /bin/sh) for each message in place of printing it. The value is its stdin;
BOWSTRING_TOPIC, BOWSTRING_PARTITION, BOWSTRING_OFFSET, BOWSTRING_ID, BOWSTRING_KEY,
BOWSTRING_RETRY_COUNT and BOWSTRING_ATTRIBUTES (a JSON object) are variables. Exit code 0 acks, 65
rejects, anything else nacks: the message is delivered again, with a higher retry count, at once or
when the subscription's backoff says. Ctrl-C passes the signal on to the commands that run, and
waits for them; a second Ctrl-C kills them.

A missing subscription is created, with --mode, --start and --where; with --no-create it is an
error. --lease is this consumer's own. It extends its leases while messages are worked on.

On a terminal it prints a table, elsewhere JSON; -o, --columns and --format are those of `bowstring
read`, with {retry_count}, {age} and {lease_end} in addition.

Examples:

\b
  bowstring consume orders billing
  bowstring consume orders billing --limit 10 -o json | jq .value
  bowstring consume orders billing --no-ack --limit 5
  bowstring consume orders billing --idle 5s -o csv >> orders.csv
  bowstring consume orders mail --exec 'sendmail -t' --concurrency 4
  bowstring consume orders archive --exec 'cat > "$BOWSTRING_ID.json"'
"""
BATCH_ROWS: Final = 1000
HELD_MAX: Final = 1000
"""With --no-ack and without --limit, at most so many messages are held and printed."""
HELD_BYTES: Final = 1 << 30
HINT_SECONDS: Final = 2.0
"""After so long without a message, a terminal shows that the command waits."""


def add_to(app: typer.Typer) -> None:
    app.command("consume", help=HELP)(consume)


def consume(
    topic: Topic,
    subscription: Name,
    limit: Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="At most this many messages.")] = None,
    idle: Annotated[str | None, typer.Option(metavar="SPAN", help="End when no message came for this long: 5s.")] = None,
    no_ack: Annotated[bool, typer.Option("--no-ack", help="Give back what was printed.")] = False,
    exec: Annotated[str | None, typer.Option("--exec", "-x", metavar="CMD", help="Run this for each message.")] = None,
    concurrency: Annotated[int | None, typer.Option(metavar="N", min=1, max=1000, help="With --exec: N at a time. [default: 1]")] = None,
    credit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Hold at most N messages. [default: as fast as it goes]")] = None,
    lease: Annotated[str | None, typer.Option(metavar="SPAN", help="How long it holds a message unless it extends: 30s.")] = None,
    extend_max: Annotated[str | None, typer.Option(metavar="SPAN", help="How long it extends leases. [default: 1h]")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name of this consumer; leases belong to it.")] = None,
    mode: Mode = None,
    where: Where = None,
    start: Start = None,
    create: Annotated[bool, typer.Option("--create/--no-create", help="Create a missing subscription.")] = True,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these fields.")] = None,
    format: Annotated[str | None, typer.Option(metavar="TEXT", help="A line per message: '{offset} {key}: {value}'.")] = None,
    output: Form_ = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    _check(exec, concurrency, no_ack=no_ack, printed=output or format or columns)
    options: dict[str, Any] = {**settings(mode, start, lease), "name": name, "credit": credit, "create": create, "where": where}
    if extend_max is not None:
        options["extend_max"] = span(extend_max, "--extend-max")
    seconds = None if idle is None else _idle(idle)
    taking: Taking
    if exec is not None:
        taking = Executing(exec, concurrency or 1, limit, seconds, seconds_of(timeout))
    else:
        from bowstring.cli import forms

        form = forms.chosen(output, format, columns, known=forms.LEASED_COLUMNS)
        taking = LeasePrinting(form, limit, seconds, seconds_of(timeout), no_ack=no_ack)
    options |= {name: value for name, value in taking.wants().items() if options.get(name) is None}
    with connect(server, context, timeout) as client, told_as_given(start=start), named(), absences_told(True):
        taking.run(client, client.consumer(topic, subscription, **options))


def _check(exec: str | None, concurrency: int | None, *, no_ack: bool, printed: str | None) -> None:
    """Refuses flags that do not go together."""
    if exec is None and concurrency is not None:
        raise errors.InvalidArgument("--concurrency was given without --exec.", hint="It says how many commands run at a time.")
    if exec is None:
        return
    if not exec.strip():
        raise errors.InvalidArgument(f"--exec '{exec}' is no command.", hint="Use --exec './work.sh'.")
    if no_ack:
        raise errors.InvalidArgument("both --exec and --no-ack were given.", hint="The exit code of the command decides; omit --no-ack.")
    if printed is not None:
        raise errors.InvalidArgument(
            "--exec was given with --output, --format or --columns.", hint="The command prints what it wants; omit them."
        )


def _idle(text: str) -> float:
    seconds = span(text, "--idle")
    if seconds <= 0:
        raise errors.InvalidArgument(f'--idle = "{text}" leaves no time.', hint='Use "5s".')
    return seconds


class Taking:
    """Takes messages until the end, then settles and gives back."""

    def __init__(self, limit: int | None, idle: float | None, patience: float) -> None:
        self._limit = limit
        self._idle = idle
        self._patience = patience
        """How long to wait for answers at the end."""
        self._came = time.monotonic()
        """When the last message came, or was done."""
        self._left = limit
        self._begun = False
        """Whether any message has come."""
        self._hinted = False
        self._problem: errors.Error | None = None
        self._endings = Endings(self._over, self._again)

    def wants(self) -> dict[str, Any]:
        """Settings of the consumer, unless flags say otherwise."""
        return {}

    def run(self, client: Client, consumer: Consumer) -> None:
        """Takes messages, and raises what ended it."""
        with self._endings:
            try:
                self._take(consumer)
            except Ended:
                pass
            except BaseException as error:
                with suppress(errors.Error):
                    self._finish(client, consumer)
                if self._begun and not isinstance(error, BrokenPipeError):
                    note(self._summary())
                raise
            self._finish(client, consumer)
        note(self._summary())
        if self._problem is not None:
            raise self._problem
        if self._endings.number == signal.SIGINT:
            raise KeyboardInterrupt

    def _take(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def _summary(self) -> str:
        raise NotImplementedError

    def _finish(self, client: Client, consumer: Consumer) -> None:
        """Waits for the answers to all settlements, then gives back, uncounted, what the consumer still
        holds: a message that was handed out in the moment of the end. Closing gives back what the
        broker has granted since.
        """
        try:
            consumer.pause()
            consumer.flush(self._patience)
            if consumer.statistics().held:
                client.release_leases(consumer.topic, consumer.subscription, consumer.name)
        finally:
            consumer.close()

    def _over(self) -> bool:
        """Whether there is nothing to wait for any more."""
        waited = time.monotonic() - self._came
        if not self._begun and not self._hinted and waited >= HINT_SECONDS and sys.stderr.isatty():
            self._hinted = True
            note("No message is there yet; Ctrl-C ends the waiting.")
        return self._idle is not None and waited >= self._idle

    def _again(self) -> None:
        """The second Ctrl-C."""
        raise KeyboardInterrupt


class LeasePrinting(Taking):
    """Prints messages, and acks what has left for stdout."""

    def __init__(self, form: OutputForm, limit: int | None, idle: float | None, patience: float, *, no_ack: bool) -> None:
        super().__init__(HELD_MAX if no_ack and limit is None else limit, idle, patience)
        self._form = form
        self._no_ack = no_ack
        self._whole = type(form).__name__ == "Parquet"
        """Whether the output is of use only when it is complete."""
        if self._whole and limit is None:
            raise errors.InvalidArgument("Parquet is complete only at its end, and a queue has none.", hint="Use --limit 10000.")
        self._held: list[LeasedBatch] = []
        """What was taken, and neither acked nor given back."""
        self._acks: deque[tuple[int, Any]] = deque()
        self._printed = self._acked = 0
        self._piped = _has_file(sys.stdout)

    def wants(self) -> dict[str, Any]:
        if self._no_ack or self._whole:
            return {"credit": self._limit, "credit_bytes": HELD_BYTES}
        return {} if self._limit is None or self._limit > BATCH_ROWS else {"credit": self._limit}

    def _take(self, consumer: Consumer) -> None:
        try:
            while self._left is None or self._left:
                with self._endings.waiting():
                    batch = next(iter(consumer.batches(min(BATCH_ROWS, self._left or BATCH_ROWS), 0)), None)
                if batch is None:
                    break
                self._print(batch)
        except (Ended, errors.Error):
            self._close()
            raise
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise errors.Rejected(f"stdout cannot be written: {error.strerror}.") from None
        self._close()

    def _print(self, batch: LeasedBatch) -> None:
        self._begun = True
        self._held.append(batch)
        self._form.write(batch.to_arrow())
        sys.stdout.buffer.flush()
        self._came = time.monotonic()
        self._printed += len(batch)
        self._left = None if self._left is None else self._left - len(batch)
        if not self._whole:
            self._ack()

    def _close(self) -> None:
        """Completes the output. It is complete up to here: nothing failed when it was written."""
        self._form.close()
        sys.stdout.buffer.flush()
        self._ack()

    def _ack(self) -> None:
        """Acks what was taken: it is printed."""
        if not self._no_ack:
            self._acks.extend((len(batch), batch.ack()) for batch in self._held)
            self._held.clear()
        while len(self._acks) > 1 and self._acks[0][1].done():
            self._count(*self._acks.popleft())

    def _count(self, rows: int, receipt: Any) -> None:
        refused = receipt.result(self._patience).refused
        self._acked += rows - len(refused)
        self._problem = self._problem or next(iter(refused.values()), None)

    def _finish(self, client: Client, consumer: Consumer) -> None:
        from bowstring.client.lease_marks import RELEASE

        for batch in self._held:
            batch._settle(None, RELEASE)  # pyright: ignore[reportPrivateUsage] -- programs have no release
        try:
            super()._finish(client, consumer)
        finally:
            while self._acks and self._acks[0][1].done():
                self._count(*self._acks.popleft())

    def _summary(self) -> str:
        printed = many(self._printed, "message")
        if self._no_ack:
            return f"{printed} printed and given back."
        return f"{printed} printed and acked." if self._printed == self._acked else f"{printed} printed, {self._acked:,} acked."

    def _over(self) -> bool:
        return super()._over() or (self._piped and nobody_reads())


class Executing(Taking):
    """Runs a command for each message."""

    def __init__(self, line: str, concurrency: int, limit: int | None, idle: float | None, patience: float) -> None:
        super().__init__(limit, idle, patience)
        from bowstring.cli.children import Children

        self._children = Children(line, note, self._cannot)
        self._concurrency = concurrency
        self._free = threading.Semaphore(concurrency)
        self._threads: set[threading.Thread] = set()

    def wants(self) -> dict[str, Any]:
        return {"credit": min(self._concurrency, self._limit or self._concurrency)}

    def _take(self, consumer: Consumer) -> None:
        messages = iter(consumer)
        while self._left is None or self._left:
            with self._endings.waiting():
                self._free.acquire()
                message = next(messages, None)
            if message is None:
                break
            self._begun = True
            self._left = None if self._left is None else self._left - 1
            thread = threading.Thread(target=self._work, args=(message,), name=f"exec-{message.offset}", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self, message: LeasedMessage) -> None:
        try:
            self._children.work(message)
        finally:
            self._came = time.monotonic()
            self._threads.discard(threading.current_thread())
            self._free.release()

    def _finish(self, client: Client, consumer: Consumer) -> None:
        consumer.pause()
        if self._endings.number:
            self._children.signal(self._endings.number)
        for thread in list(self._threads):
            thread.join()
        super()._finish(client, consumer)

    def _over(self) -> bool:
        return not self._threads and super()._over()

    def _again(self) -> None:
        """Kills the commands. If none runs any more, there is nothing to wait for."""
        if not self._children.signal(signal.SIGKILL):
            raise KeyboardInterrupt

    def _cannot(self, error: errors.Error) -> None:
        self._problem = self._problem or error
        self._endings.end()

    def _summary(self) -> str:
        counts = self._children.counts
        words = {"nacked": "given back"}
        told = ", ".join(f"{count:,} {words.get(outcome, outcome)}" for outcome, count in counts.items() if count)
        return f"{many(sum(counts.values()), 'message')}{f': {told}' if told else ''}."


def _has_file(stream: Any) -> bool:
    try:
        os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return True
