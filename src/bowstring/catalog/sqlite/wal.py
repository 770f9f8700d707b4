"""Makes the WAL of an earlier process durable before anything rests on it.

After a failed sync the kernel keeps the file's pages in its cache and marks them clean. The next
process reads them as if they were on the disk, its own sync succeeds without writing them, and
SQLite then overwrites the database page by page, trusting the WAL to bring the pages back after a
power cut. On the disk there is no such WAL. A process cannot know whether an earlier one had a
failed sync: that one may have died before it could tell, or the kernel found the error after the
process had ended. So every opening writes a WAL that has any bytes anew, before SQLite reads it.

It is written in place: each sector gets the bytes that it has, or should have. A power cut in
between leaves some sectors as the disk had them and some as the cache had them. Durable bytes are
the same in both, and the checksums in the WAL end its reading at the first missing sector. So the
disk never has less than before; the rewriting needs no room, which a full disk would not give; and
no name changes (docs/decisions/0018 has the alternatives).

SQLite looks at the WAL afterwards, not before. The cache may drop a clean page between two reads,
and the second one then gives what the disk has. Only after the sync are both the same.
"""

from __future__ import annotations

import apsw

_WRITE_BYTES = 1 << 16
"""SQLite's own files take less than 128 KiB at a time, and call more than that a full disk."""


def write_anew(connection: apsw.Connection, vfs: str | None) -> bool:
    """Writes the WAL of this connection once more and syncs it. Returns whether it had any bytes:
    then the connection's view of it is void, and the caller has to open another one. The connection
    holds the database's lock meanwhile.
    """
    if connection.pragma("journal_mode") != "wal":
        return False
    file = apsw.VFSFile(vfs or "", connection.filename_wal, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])
    try:
        size = file.xFileSize()
        for position in range(0, size, _WRITE_BYTES):
            file.xWrite(file.xRead(min(_WRITE_BYTES, size - position), position), position)
        if size:
            file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()
    return size > 0
