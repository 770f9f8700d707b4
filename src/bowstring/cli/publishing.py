"""Publishes the input of `bowstring produce`, and reports what was stored.

It hands Arrow tables to the kit, which blocks while 64 MiB are under way, so memory is bounded
however large the input is. Receipts settle in order. The first failure or Ctrl-C ends the command,
and it still reports what was stored before.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from bowstring import errors, times
from bowstring.cli.interrupts import Interrupts
from bowstring.cli.output import Printer, note, progress

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.cli.produce import Filled, Source
    from bowstring.client.sync_producer import BatchReceipt, Producer, Receipt

RECEIPTS_UNDER_WAY: Final = 256


class Publishing:
    """Sends messages, waits for their receipts, and prints what was stored."""

    def __init__(
        self, topic: str, producer: Producer, printer: Printer, *, each: bool, filled: Filled, partition: int | None = None
    ) -> None:
        self._topic = topic
        self._producer = producer
        self._printer = printer
        self._each = each
        self._filled = filled
        self._partition = partition
        self._values_under_way: deque[Receipt] = deque()
        self._under_way: deque[tuple[BatchReceipt, int]] = deque()
        self._sent = self._stored = self._duplicates = 0
        self._offsets: dict[int, tuple[int, int]] = {}
        self._rows: list[dict[str, Any]] = []
        self._failure: errors.Error | None = None

    def values(self, values: list[str]) -> None:
        """Publishes a message for each value: sends them together, and reports them one by one."""
        if self._filled.id is not None and len(values) > 1:
            raise errors.InvalidArgument("--id is the id of one message, and there are more.", hint="Give one --value.")
        if self._partition is not None:
            import pyarrow as pa

            return self._send(pa.table({"value": pa.array([value.encode() for value in values], pa.binary())}))
        columns = self._columns_of_values()
        for value in values:
            self._values_under_way.append(self._producer.send(value, **columns))
            self._sent += 1
        return None

    def _columns_of_values(self) -> dict[str, Any]:
        given = self._filled.columns
        columns = {name: value for name, value in given.items() if value is not None and name != "expires" and name != "due"}
        if "attributes" in columns:
            columns["attributes"] = dict(columns["attributes"])
        for name, moment_given in (("at", given["due"]), ("expires", given["expires"])):
            if moment_given is not None:
                columns[name] = times.to_datetime(moment_given)
        return columns

    def run(self, sources: list[Source]) -> None:
        """Publishes all sources, until something fails."""
        total = sum(source.size for source in sources) if all(source.path != "-" for source in sources) else None
        done = 0
        if any(source.path == "-" for source in sources) and sys.stdin.isatty():
            note("Type messages, a line each; Ctrl-D ends.")
        quiet = sys.stdin.isatty() and total is None
        with progress("publishing", shown=not quiet) as told, Interrupts() as interrupts:

            def counted(size: int) -> None:
                nonlocal done
                done += size
                told(done, total if total is None else max(done, total))

            for source in sources:
                for table in source.tables(counted):
                    with interrupts.held():
                        self._send(table)
                    if self._failure is not None:
                        return

    def _send(self, table: pa.Table) -> None:
        filled = self._filled.into(table, self._sent)
        try:
            receipt = self._producer.send_batch(filled, partition=self._partition)
        except errors.InvalidArgument as error:
            said = re.sub(r"\brow (\d+)", lambda match: f"message {self._sent + int(match[1]) + 1:,}", error.message)
            raise errors.Rejected(said, hint=error.hint) from None
        self._under_way.append((receipt, self._sent))
        self._sent += table.num_rows
        while self._under_way and (self._under_way[0][0].done() or len(self._under_way) > RECEIPTS_UNDER_WAY):
            self._settle()

    def _settle(self) -> None:
        receipt, first = self._under_way.popleft()
        answers = receipt.result()
        if answers.refused and self._failure is None:
            row, error = next(iter(answers.refused.items()))
            self._failure = type(error)(f"message {first + row + 1:,}: {error.message}", hint=error.hint, details=error.details)
        self._stored += len(answers) - len(answers.refused)
        self._duplicates += answers.duplicates.true_count
        if self._each:
            ids = receipt.ids
            columns = answers.ok, answers.partitions, answers.offsets, answers.duplicates
            for row, (ok, partition, offset, duplicate) in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
                if ok:
                    told = {"topic": self._topic, "partition": partition, "offset": offset, "id": ids[row], "duplicate": duplicate}
                    self._tell(told)
        else:
            self._count(answers)

    def _settle_value(self) -> None:
        try:
            stored = self._values_under_way.popleft().result()
        except errors.Error as error:
            self._failure = self._failure or error
        else:
            self._stored += 1
            self._tell(stored._asdict())

    def _count(self, answers: Any) -> None:
        """The least and the greatest offset of each partition."""
        import pyarrow as pa

        placed = pa.table({"partition": answers.partitions, "offset": answers.offsets}).filter(answers.ok)
        for found in placed.group_by("partition").aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
            least, most = self._offsets.get(found["partition"], (found["offset_min"], found["offset_max"]))
            self._offsets[found["partition"]] = min(least, found["offset_min"]), max(most, found["offset_max"])

    def _tell(self, row: dict[str, Any]) -> None:
        if self._printer.is_data:
            self._printer.objects([row])
        else:
            self._rows.append(row)

    def end(self) -> None:
        """Waits for messages under way, reports what was stored, and raises the failure. After
        Ctrl-C it only reports the failure, because the interrupt is already being raised.
        """
        ended_by = sys.exc_info()[1]
        interrupted = not isinstance(ended_by, Exception | None)
        while self._values_under_way:
            self._settle_value()
        while self._under_way:
            self._settle()
        self._print(always=not (self._failure or ended_by))
        if interrupted:
            failed = f" {self._failure}" if self._failure else ""
            return note(f"Interrupted: {self._stored:,} of the {self._sent:,} messages that were sent are stored.{failed}")
        if self._failure is not None:
            if self._sent > 1:
                note(f"{self._stored:,} of the {self._sent:,} messages that were sent are stored.")
            raise self._failure
        return None

    def _print(self, *, always: bool) -> None:
        if not self._each:
            if self._stored or always:
                self._print_sum()
        elif self._rows:
            columns = {"partition": "right", "offset": "right", "id": "left", "": "left"}
            rows = [
                (row["partition"], f"{row['offset']:,}", row["id"], "stored before" if row.get("duplicate") else "") for row in self._rows
            ]
            self._printer.table(columns, rows)

    def _print_sum(self) -> None:
        if self._printer.is_data:
            offsets = {str(partition): list(self._offsets[partition]) for partition in sorted(self._offsets)}
            told = {"topic": self._topic, "messages": self._stored, "duplicates": self._duplicates, "offsets": offsets}
            return self._printer.objects([told])
        places = [f"{number}@{first:,}–{last:,}" for number, (first, last) in sorted(self._offsets.items())[:8]]
        where = f" ({', '.join(places)}{', …' if len(self._offsets) > 8 else ''})" if places else ""
        many = "1 message is" if self._stored == 1 else f"{self._stored:,} messages are"
        before = f" {self._duplicates:,} of them had been stored before." if self._duplicates else ""
        return self._printer.line(f"{many} stored in {self._topic}{where}.{before}")
