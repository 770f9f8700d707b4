"""`bowstring backup DIR TARGET` and `bowstring restore BACKUP DIR`."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from bowstring import errors, times
from bowstring.cli.output import Output, Printer, note, progress, size
from bowstring.version import VERSION

BACKUP_HELP = """Makes a backup of a data directory, while it is served or not.

If a broker serves DIR, the broker makes the backup without stopping, and TARGET is a directory on
its host that its user may write to. Otherwise this command copies the files. TARGET must be new or
empty: each backup is complete and has its own directory.

Examples:

\b
  bowstring backup ./data /backups/orders-2026-11-15
  bowstring restore /backups/orders-2026-11-15 ./data-again

Exit code 5: the backup was made, but something in DIR is damaged, and the backup has the same
damage.
"""
RESTORE_HELP = """Makes a data directory from a backup.

Checks every file against the backup's manifest. DIR must be new or empty. A broker that serves it
has every message up to the backup, and recognises repeated ones. It is a separate cluster, with a
new id.

Messages older than their topic's retention expire when a broker starts, as they would have in the
original.

Examples:

\b
  bowstring restore /backups/orders-2026-11-15 ./data
  bowstring serve --data ./data
"""
CORRUPT = 5
DAMAGED_SHOWN = 20


def add_to(app: typer.Typer) -> None:
    app.command("backup", help=BACKUP_HELP)(backup)
    app.command("restore", help=RESTORE_HELP)(restore)


def backup(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The data directory.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A new directory, or an empty one.")],
    output: Output = None,
) -> None:
    printer = Printer(output)
    target = os.path.abspath(target)
    try:
        made = _offline(directory, target)
    except errors.Conflict as conflict:
        address = conflict.details.get("address")
        if not address:
            raise
        made = _online(address, target)
    segments, total, damaged = made
    done = {"target": target, "segments": segments, "bytes": total, "damaged": list(damaged)}
    if printer.is_data:
        printer.objects([done])
    else:
        printer.line(f"{target}: {segments:,} segments, {size(total)}")
    for text in damaged[:DAMAGED_SHOWN]:
        note(f"damaged: {text}")
    if damaged:
        things = "thing was" if len(damaged) == 1 else "things were"
        note(f"The backup was made, but {len(damaged):,} {things} damaged already: bowstring inspect --verify tells more.")
        raise typer.Exit(CORRUPT)


Made = tuple[int, int, tuple[str, ...]]


def _offline(directory: str, target: str) -> Made:
    from bowstring.backup.archive import back_up_offline

    with progress("backing up") as told:
        made = times.to_text(time.time_ns() // 1000)
        filled = back_up_offline(directory, target, software=f"bowstring/{VERSION}", made=made, progress=told)
    return filled.segments, filled.bytes, filled.damaged


def _online(address: str, target: str) -> Made:
    import asyncio

    from bowstring.backup import making
    from bowstring.client.backup import back_up

    proof = making.claim(target)
    try:
        with progress("backing up") as told:
            answer = asyncio.run(back_up(_home(address), target, proof, told))
    except BaseException:
        making.discard(target)
        raise
    return answer.segments, answer.bytes, tuple(answer.damaged)


def _home(address: str) -> str:
    """The address for clients on this machine of a broker that listens on all addresses."""
    host, _, port = address.rpartition(":")
    return {"0.0.0.0": f"127.0.0.1:{port}", "[::]": f"[::1]:{port}"}.get(host, address)


def restore(
    source: Annotated[str, typer.Argument(metavar="BACKUP", help="The directory that `bowstring backup` made.")],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The data directory to make: new or empty.")],
    output: Output = None,
) -> None:
    from bowstring.backup.restoring import restore as restore_to

    printer = Printer(output)
    directory = os.path.abspath(directory)
    with progress("restoring") as told:
        restored = restore_to(os.path.abspath(source), directory, progress=told)
    done = {
        "directory": directory,
        "made": restored.manifest.made,
        "bytes": restored.bytes,
        "cluster": restored.cluster,
        "cluster_before": restored.manifest.cluster,
        "epoch": restored.epoch,
    }
    if printer.is_data:
        return printer.objects([done])
    printer.line(f"{directory}: {size(restored.bytes)} as of {restored.manifest.made}, cluster {restored.cluster}")
    return note(f"bowstring serve --data {directory}")
