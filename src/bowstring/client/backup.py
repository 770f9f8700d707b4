"""Asks a broker to back itself up to a directory of its own host. `bowstring backup` uses it."""

from __future__ import annotations

from collections.abc import Callable

from bowstring import errors
from bowstring.ports.transport import Dialer
from bowstring.wire.dialer import AddressDialer
from bowstring.wire.generated import bowstring_pb2 as pb


async def back_up(
    address: str, target: str, proof: str, progress: Callable[[int, int], None], dialer: Dialer | None = None
) -> pb.BackupAnswer:
    """Waits until the backup is made. Raises the broker's errors, and `Unavailable` if the broker
    goes away."""
    channel = (dialer or AddressDialer()).dial(address)
    try:
        stream = channel.stream("Backup")
        await stream.write(pb.BackupRequest(target=target, proof=proof).SerializeToString())
        while (message := await stream.read()) is not None:
            answer = pb.BackupAnswer.FromString(bytes(message))
            if answer.done:
                return answer
            progress(answer.bytes, answer.bytes_total)
        raise errors.Unavailable("the broker ended the call before the backup was done; there is none.")
    finally:
        await channel.close()
