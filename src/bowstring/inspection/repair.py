"""Makes a damaged directory one that a broker starts on: it serves what is intact, and answers
`Corrupt` for what is not.

A broker lives with damaged pages and index sections, and with missing segments: it answers
`Corrupt` for their offsets. They are left where they are. What it cannot live with are rows of the
catalog whose checksum is wrong, because they are what is true. They are put aside and replaced by
what everything else tells (`rebuilding`). Orphans are put aside, too.

Nothing is deleted. All goes to DIR/quarantine/<moment>: files as they were, the catalog as it was
before as `catalog.sqlite`, with the damaged rows in it. Putting that one back undoes a repair. The
directory is locked meanwhile.
"""

from __future__ import annotations

import os

from bowstring import errors, times
from bowstring.catalog.sqlite.offline import Bad
from bowstring.catalog.sqlite.repair import Mend, mend
from bowstring.core.snapshots import DELETIONS, KEPT, MOVED, PARTITION
from bowstring.host.disk import sync_directory, sync_file
from bowstring.host.lock import DirectoryLock
from bowstring.inspection import rebuild
from bowstring.inspection.contents import Contents
from bowstring.inspection.directory import CATALOG, DataDirectory
from bowstring.inspection.findings import Finding
from bowstring.inspection.ledger_rebuild import rebuild_ledgers
from bowstring.inspection.structure import structure
from bowstring.ports.extents import Extent, StateRow
from bowstring.ports.failures import Damaged

QUARANTINE = "quarantine"


def repair(path: str, *, now: int) -> list[Finding]:
    """Repairs, and says what was done; `now` is a moment. Raises Conflict if the directory is
    served, Corrupt if SQLite cannot read the catalog.
    """
    path = os.path.abspath(path)
    with DataDirectory(path):
        pass  # raises if it is none, or is served
    lock = DirectoryLock(path)
    try:
        lock.take("bowstring inspect --repair")
    except OSError as error:
        raise errors.Conflict(f"{path} cannot be changed: {error.strerror}.", hint="Copy it to where it can be.") from error
    try:
        return _Repair(path, now).run()
    except Damaged as error:
        raise errors.Corrupt(f"the catalog of {path} cannot be read: {error}.", hint="Restore a backup: bowstring restore.") from error
    finally:
        lock.give_back()


class _Repair:
    """One repair of a directory that is locked."""

    def __init__(self, path: str, now: int) -> None:
        self._path = path
        self._now = now
        moment = times.to_text(now).replace(":", "").replace("-", "")[:15]
        self._quarantine = os.path.join(path, QUARANTINE, moment)
        self._done: list[Finding] = []

    def run(self) -> list[Finding]:
        with DataDirectory(self._path, catalog=os.path.join(self._path, CATALOG)) as directory:
            contents = Contents(directory.catalog)
            if trouble := directory.catalog.trouble():
                raise Damaged(trouble[0])
            change = self._change(directory, contents)
            orphans = [orphan.name for orphan in directory.inventory().orphans]
            if change or orphans:
                self._make_quarantine()
            if change:
                directory.catalog.back_up(os.path.join(self._quarantine, CATALOG))
                sync_file(os.path.join(self._quarantine, CATALOG))
        for name in orphans:
            os.rename(os.path.join(self._path, name), os.path.join(self._quarantine, name))
            self._tell("orphan", f"moved to {self._place(name)}", segment=name)
        if change or orphans:
            sync_directory(self._quarantine)
            sync_directory(self._path)
        if change:
            mend(os.path.join(self._path, CATALOG), change)
        return self._done

    def _make_quarantine(self) -> None:
        os.makedirs(os.path.dirname(self._quarantine), mode=0o700, exist_ok=True)
        free = next(place for number in range(1, 1000) if not os.path.exists(place := f"{self._quarantine}-{number}"))
        os.mkdir(free, 0o700)
        self._quarantine = free
        sync_directory(os.path.dirname(self._quarantine))

    def _place(self, name: str) -> str:
        return os.path.join(QUARANTINE, os.path.basename(self._quarantine), name)

    def _tell(self, kind: str, text: str, **place: object) -> None:
        self._done.append(Finding(kind, text, damaged=False, **place))  # pyright: ignore[reportArgumentType]

    # What is to be changed

    def _change(self, directory: DataDirectory, contents: Contents) -> Mend:
        usage = [finding for finding in structure(directory, contents) if finding.kind == "usage"]
        rows = rebuild.rebuild_rows(directory, contents)
        added = self._extents(directory, contents)
        damaged = [bad for bad in contents.bad_states if bad.key[2] == PARTITION and bad.key[3] == 0]
        for bad in damaged:
            rebuild.complete(contents, bad, self._now)
        ledgers, ledgers_gone, told = rebuild_ledgers(contents, self._now)
        self._done += told
        heads = self._heads(contents, damaged)
        for rebuilt in rows:
            self._tell_row(contents, rebuilt)
        chunks = [bad for bad in contents.bad_states if bad.key[2] == DELETIONS]
        for bad in chunks:
            text = "the record of deletions is put aside: messages that were deleted in this range are delivered again"
            self._tell("deletions", text, topic=contents.name(bad.key[0]), partition=bad.key[1])
        for bad in [bad for bad in contents.bad_states if bad.key[2] == MOVED]:
            text = "the record of moved messages is put aside: messages that were moved in this range are due when they were published for"
            self._tell("moved", text, topic=contents.name(bad.key[0]), partition=bad.key[1])
        heads += self._kept(contents)
        kept = [extent for extents in contents.extents.values() for extent in extents]
        if usage:
            self._tell("usage", "what extents use of segments is written down anew")
        return Mend(
            drop_extents=[bad.key for bad in contents.bad_extents],
            add_extents=added,
            states=[*ledgers, *heads],
            drop_states=[*(bad.key for bad in contents.bad_states), *ledgers_gone],
            rows=[(rebuilt.broker, rebuilt.row) for rebuilt in rows],
            uses=[*kept, *added] if usage else None,
        )

    def _extents(self, directory: DataDirectory, contents: Contents) -> list[Extent]:
        added: list[Extent] = []
        for bad in contents.bad_extents:
            key = bad.key[0], bad.key[1]
            if key not in contents.partitions:
                self._tell("extent", "a row of no topic is put aside", segment=str(bad.key))
                continue
            extent, whole = rebuild.rebuild_extent(directory, contents, bad)
            added.append(extent)
            text = "made anew from its index" if whole else "some of it could not be made anew: reading the missing part raises Corrupt"
            self._tell("extent", text, **contents.at(key, extent.first_offset, extent.end_offset))
        return added

    def _heads(self, contents: Contents, damaged: list[Bad]) -> list[StateRow]:
        """They name the subscriptions, also those that were made anew."""
        found = [rebuild.rebuild_head(contents, bad) for bad in damaged]
        for head in found:
            if head is not None:
                text = "made anew without what producers had sent: ids are refused for one deduplication window"
                self._tell("snapshot", text, **contents.at((head.topic, head.partition)))
        return [head for head in found if head is not None]

    def _kept(self, contents: Contents) -> list[StateRow]:
        """In the place of a damaged record everything that is stored there is kept: retention then looks at it."""
        bad_ones = [bad for bad in contents.bad_states if bad.key[2] == KEPT]
        found = [row for bad in bad_ones if (row := rebuild.rebuild_kept(contents, bad)) is not None]
        for row in found:
            text = "the record of messages that are kept for their due time is made anew: all that are stored there are kept"
            self._tell("kept", text, topic=contents.name(row.topic), partition=row.partition)
        return found

    def _tell_row(self, contents: Contents, rebuilt: rebuild.RebuiltRow) -> None:
        sequence = rebuilt.row.sequence
        for key, first, end in rebuilt.recovered:
            self._tell("journal", f"found again the messages of journal row {sequence}", sequence=sequence, **contents.at(key, first, end))
        for key, first, end in rebuilt.lost:
            text = f"the messages of journal row {sequence} are lost: they answer Corrupt"
            self._tell("journal", text, sequence=sequence, **contents.at(key, first, end))
        if not rebuilt.recovered and not rebuilt.lost:
            self._tell("journal", f"journal row {sequence} is replaced by an empty one", sequence=sequence)
