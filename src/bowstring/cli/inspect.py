"""`bowstring inspect DIR`: looks into a data directory that no broker serves. `--repair` puts aside
the damage that keeps a broker from starting.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors
from bowstring.cli.output import Output, Printer, note, progress, size

if TYPE_CHECKING:
    from bowstring.inspection.contents import Contents
    from bowstring.inspection.directory import DataDirectory
    from bowstring.inspection.findings import Finding

HELP = """Looks into a data directory offline: what is in it, and whether it is whole.

No broker may serve the directory at the time; read-only directories and copies are fine. Nothing
changes without --repair.

Examples:

\b
  bowstring inspect ./data                     an overview
  bowstring inspect ./data --verify            reads and checks everything
  bowstring inspect ./data --segment 1000001   the pages of one segment
  bowstring inspect ./data --verify -o json    one object per damaged page
  bowstring inspect ./data --repair            puts aside what is damaged

Exit code 5 if --verify finds something damaged.

--repair leaves in place what a broker can live with: a damaged page stays where it is, and reading
its offsets raises Corrupt. Everything else goes to DIR/quarantine, with a copy of the catalog as it
was. Make a backup first.
"""

CORRUPT = 5
PARTITIONS_SHOWN = 64
"""For a topic with more partitions the table has only the sum; JSON has them all."""


def add_to(app: typer.Typer) -> None:
    app.command("inspect", help=HELP)(inspect)


def inspect(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The data directory.")],
    segment: Annotated[str | None, typer.Option(metavar="ID", help="List the frames of this segment.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read and check everything.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Put aside what is damaged, so that a broker starts.")] = False,
    output: Output = None,
) -> None:
    printer = Printer(output)
    if repair:
        return _repair(printer, directory)
    from bowstring.inspection.contents import Contents
    from bowstring.inspection.directory import DataDirectory
    from bowstring.ports.failures import Damaged

    try:
        with DataDirectory(directory) as opened:
            contents = Contents(opened.catalog)
            if segment is not None:
                _segment(printer, opened, contents, segment)
            elif verify:
                _verify(printer, opened, contents)
            else:
                _overview(printer, opened, contents)
    except Damaged as error:
        raise errors.Corrupt(f"the catalog of {directory} cannot be read: {error}.", hint="Restore a backup: bowstring restore.") from error


# Overview


def _overview(printer: Printer, directory: DataDirectory, contents: Contents) -> None:
    from bowstring.inspection.overview import overview

    found = overview(directory, contents)
    if printer.is_data:
        return printer.objects([found])
    printer.line(f"{found['directory']}: catalog format {found['format']}, cluster {found['cluster']}, epoch {found['epoch']}")
    journal = f"{found['journal_rows']:,} rows, {size(found['journal_bytes'])}, up to sequence {found['sequence']:,}"
    printer.line(f"journal {journal}; {found['extents']:,} extents; catalog {size(found['catalog_bytes'])}")
    free, orphans = found["free_files"], found["orphans"]
    kept = f"free files {len(free)} ({size(_sum(free))}), orphans {len(orphans)} ({size(_sum(orphans))})"
    printer.line(f"{kept}, reserve {size(found['reserve_bytes'])}")
    if found["topics"]:
        printer.line()
        _topics(printer, found["topics"])
        _subscriptions(printer, found["topics"])
    if found["segments"]:
        printer.line()
        columns = {"segment": "left", "epoch": "right", "size": "right", "alive": "right", "share": "right", "state": "left"}
        rows = [(s["id"], s["epoch"], size(s["bytes"]), size(s["alive"]), f"{s['share']:.0%}", s["state"]) for s in found["segments"]]
        printer.table(columns, rows)
    if orphans:
        printer.line()
        printer.table({"orphan": "left", "size": "right"}, [(orphan["name"], size(orphan["bytes"])) for orphan in orphans])
    if found["damaged"]:
        printer.line()
        _findings(printer, [finding for finding in contents.findings if finding.damaged])
    return None


def _topics(printer: Printer, topics: list[dict[str, Any]]) -> None:
    columns = {"topic": "cut", "partition": "right", "messages": "right", "size": "right"}
    columns |= {"first": "right", "floor": "right", "next": "right", "sealed to": "right"}
    rows: list[tuple[object, ...]] = []
    for topic in topics:
        ranges = topic["ranges"]
        if len(ranges) > 1:
            rows.append((topic["name"], f"all {len(ranges)}", f"{topic['messages']:,}", size(topic["bytes"]), "", "", "", ""))
        for each in ranges if len(ranges) <= PARTITIONS_SHOWN else ():
            name = topic["name"] if len(ranges) == 1 else ""
            messages = f"{topic['messages']:,}" if len(ranges) == 1 else ""
            offsets = (f"{each[key]:,}" for key in ("first", "floor", "next", "sealed"))
            rows.append((name, each["partition"], messages, size(each["bytes"]), *offsets))
    printer.table(columns, rows)


def _subscriptions(printer: Printer, topics: list[dict[str, Any]]) -> None:
    columns = {"topic": "cut", "subscription": "cut", "mode": "left", "lease": "right", "partition": "right"}
    columns |= {"floor": "right", "cursor": "right", "backlog": "right", "leases": "right", "leased": "right"}
    rows: list[tuple[object, ...]] = []
    for name, one in [(topic["name"], one) for topic in topics for one in topic["subscriptions"]]:
        ranges, names = one["ranges"], (name, one["name"], one["mode"], f"{one['lease']:g} s")
        if len(ranges) > 1:
            rows.append((*names, f"all {len(ranges)}", "", "", f"{one['backlog']:,}", "", f"{one['leased']:,}"))
        for each in ranges if len(ranges) <= PARTITIONS_SHOWN else ():
            figures = (f"{each[key]:,}" for key in ("floor", "cursor", "backlog", "leases", "leased"))
            rows.append((*(names if len(ranges) == 1 else ("",) * 4), each["partition"], *figures))
    if rows:
        printer.line()
        printer.table(columns, rows)


def _sum(files: list[dict[str, Any]]) -> int:
    return sum(file["bytes"] for file in files)


# One segment


def _segment(printer: Printer, directory: DataDirectory, contents: Contents, named: str) -> None:
    from bowstring.inspection.segment import frames, segment_of

    rows = frames(directory, contents, segment_of(directory, named))
    if printer.is_data:
        return printer.objects(rows)
    columns = {"position": "right", "length": "right", "flush": "right", "kind": "left", "topic": "cut", "rows": "right"}
    columns |= {"offsets": "left", "": "wrap"}
    return printer.table(columns, [_frame(row) for row in rows])


def _frame(row: dict[str, Any]) -> tuple[object, ...]:
    topic = f"{row['topic']}/{row['partition']}" if "topic" in row else None
    offsets = f"{row['first_offset']}–{row['last_offset']}" if row["referred"] else None
    state = row.get("damaged") or ("" if row["referred"] else "not referred to")
    return row["position"], row["length"], row["sequence"], row["kind"], topic, row.get("rows"), offsets, state


# Verifying


def _verify(printer: Printer, directory: DataDirectory, contents: Contents) -> None:
    from bowstring.inspection.verification import Verifier

    with progress("verifying") as told:
        verified = Verifier(directory, contents, told).run()
    _findings(printer, verified.findings)
    damaged = sum(finding.damaged for finding in verified.findings)
    read = f"{verified.pages:,} pages, {size(verified.bytes)}, {contents.journal_rows:,} journal rows"
    if damaged:
        note(f"{read} were read; {damaged:,} {'thing is' if damaged == 1 else 'things are'} damaged.")
        raise typer.Exit(CORRUPT)
    note(f"{read} were read; all is whole.")


def _findings(printer: Printer, findings: list[Finding]) -> None:
    if printer.is_data:
        printer.objects(finding.row() for finding in findings)
    elif findings:
        rows = [("damaged" if f.damaged else "note", f.kind, f.where, f.text) for f in findings]
        printer.table({"": "left", "kind": "left", "where": "left", "what": "wrap"}, rows)


# Repairing


def _repair(printer: Printer, directory: str) -> None:
    from bowstring.inspection.repair import repair

    done = repair(directory, now=time.time_ns() // 1000)
    if printer.is_data:
        printer.objects(step.row() for step in done)
    elif done:
        printer.table({"where": "left", "what was done": "wrap"}, [(step.where, step.text) for step in done])
    note(f"{len(done):,} repairs." if done else "There was nothing to repair.")
