"""Turns a restored catalog into that of another cluster, because the original may still be in use."""

from __future__ import annotations

from typing import Any

import apsw

from bowstring.catalog.sqlite import file
from bowstring.errors import Corrupt

_FORMAT_OF_ONE_COUNTER = 3
"""Before it, a broker counted its epochs itself; the upgrade goes on from there."""


def begin_anew(path: str, *, epochs: int) -> tuple[bytes, int]:
    """Gives the data a new name, and lets that many epochs pass. Gives name and epoch. Durable when
    it returns.
    """
    try:
        connection = apsw.Connection(path)
        try:
            connection.pragma("journal_mode", "DELETE")
            connection.pragma("synchronous", "EXTRA")
            counter = "cluster" if connection.pragma("user_version") >= _FORMAT_OF_ONE_COUNTER else "broker"
            with file.transaction(connection):
                connection.execute("UPDATE cluster SET id = randomblob(16)")
                connection.execute(f"UPDATE {counter} SET epoch = epoch + ?", (epochs,))
            cluster: Any = connection.execute("SELECT id FROM cluster").fetchall()[0][0]
            epoch: Any = connection.execute(f"SELECT max(epoch) FROM {counter}").fetchall()[0][0]
        finally:
            connection.close(True)
    except (apsw.Error, IndexError) as error:
        raise Corrupt(f"{path} is no catalog that can be restored: {error}") from error
    return bytes(cluster), epoch or 0
