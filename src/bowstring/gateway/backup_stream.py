"""A backup's stream: where to in, how far it is out. It ends with the backup, and the backup with it."""

from __future__ import annotations

import asyncio
from typing import Final

from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.broker.backup import Backup
from bowstring.broker.broker import Broker
from bowstring.ports.archive import Filled
from bowstring.ports.clock import Clock
from bowstring.ports.transport import Inbound
from bowstring.wire.codec import HEADER_BYTES_MAX
from bowstring.wire.generated import bowstring_pb2 as pb

TELL_SECONDS: Final = 0.2


class BackupStream:
    """One stream of one who wants a backup."""

    def __init__(self, broker: Broker, inbound: Inbound, clock: Clock) -> None:
        self._broker = broker
        self._inbound = inbound
        self._clock = clock
        self._making: asyncio.Task[Filled] | None = None
        self._ended: errors.Error | None = None

    async def run(self) -> None:
        message = await self._inbound.read()
        if message is None:
            return
        request = _parsed(message)
        backup = await self._broker.backup(request.target, request.proof)
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
        answer = pb.BackupAnswer(bytes=filled.bytes, bytes_total=filled.bytes, done=True, segments=filled.segments, damaged=filled.damaged)
        await self._inbound.write(answer.SerializeToString())

    def end(self, error: errors.Error) -> None:
        """The broker stops: there will be no backup."""
        self._ended = error
        if self._making is not None:
            self._making.cancel()

    async def _tell(self, backup: Backup, making: asyncio.Task[Filled]) -> None:
        while not making.done():
            waking = asyncio.create_task(self._clock.sleep(TELL_SECONDS))
            try:
                await asyncio.wait((making, waking), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waking.cancel()
            await self._inbound.write(pb.BackupAnswer(bytes=backup.done, bytes_total=backup.total).SerializeToString())


def _parsed(message: bytes) -> pb.BackupRequest:
    if len(message) > HEADER_BYTES_MAX:
        raise errors.InvalidArgument(f"a backup request has {len(message)} bytes.", hint=f"The maximum is {HEADER_BYTES_MAX}.")
    try:
        return pb.BackupRequest.FromString(message)
    except DecodeError:
        raise errors.InvalidArgument("this is not a backup request.", hint="The schema is in proto/bowstring/v1.") from None
