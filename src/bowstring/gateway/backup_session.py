"""A backup's session: the target in, the progress out.
The session ends with the backup, and the backup with the session."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from bowstring import errors
from bowstring.broker.backup import Backup
from bowstring.broker.broker import Broker
from bowstring.gateway.value_stream import ValueStream
from bowstring.ports.archive import Filled
from bowstring.ports.clock import Clock

TELL_SECONDS: Final = 0.2
"""The time between two reports of progress."""


class BackupTarget(NamedTuple):
    """The one request of a session."""

    path: str
    """A directory on the broker's own host."""
    proof: str
    """What the caller has written in a file there."""


class BackupProgress(NamedTuple):
    """How far a backup is, in bytes."""

    done: int
    total: int


class BackupSession:
    """One session of one caller who wants a backup."""

    def __init__(self, broker: Broker, stream: ValueStream[BackupTarget, BackupProgress | Filled], clock: Clock) -> None:
        self._broker = broker
        self._stream = stream
        self._clock = clock
        self._making: asyncio.Task[Filled] | None = None
        self._ended: errors.Error | None = None

    async def run(self) -> None:
        """Makes the backup. Raises why there is none."""
        target = await self._stream.read()
        if target is None:
            return
        backup = await self._broker.backup(target.path, target.proof)
        self._making = asyncio.create_task(backup.run())
        try:
            await self._tell(backup, self._making)
            filled = await self._making
        except asyncio.CancelledError:
            if self._ended is not None:
                raise self._ended from None
            raise
        finally:
            self._making.cancel()
            await asyncio.wait((self._making,))
        await self._stream.write(filled)

    def end(self, error: errors.Error) -> None:
        """Gives the backup up: the broker stops."""
        self._ended = error
        if self._making is not None:
            self._making.cancel()

    async def _tell(self, backup: Backup, making: asyncio.Task[Filled]) -> None:
        """Reports the progress until the backup is made, or fails."""
        while not making.done():
            waking = asyncio.create_task(self._clock.sleep(TELL_SECONDS))
            try:
                await asyncio.wait((making, waking), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waking.cancel()
            await self._stream.write(BackupProgress(backup.done, backup.total))
