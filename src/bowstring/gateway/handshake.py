"""The first call on a connection: which version of the protocol to speak, which limits to keep, and what time it is here."""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.wire.generated import bowstring_pb2 as pb

PROTOCOL: Final = 1
PROTOCOL_MIN: Final = 1


def hello(broker: Broker, software: str, now: int, request: pb.HelloRequest) -> pb.HelloAnswer:
    """The newest version that both speak, the limits to keep, and the time here."""
    if request.protocol < PROTOCOL_MIN or request.protocol_min > PROTOCOL:
        theirs = f"{request.protocol_min} to {request.protocol}" if request.protocol_min < request.protocol else f"{request.protocol}"
        newer = request.protocol_min > PROTOCOL
        raise errors.NotSupported(
            f"this client speaks version {theirs} of the protocol, this broker speaks {PROTOCOL}.",
            hint="Use a newer broker, or an older client." if newer else "Use a newer client.",
            details={"protocol": str(PROTOCOL), "protocol_min": str(PROTOCOL_MIN)},
        )
    return pb.HelloAnswer(
        software=software,
        protocol=min(request.protocol, PROTOCOL),
        protocol_min=PROTOCOL_MIN,
        broker_time=now,
        cluster=broker.cluster,
        batch_bytes_max=broker.settings.batch_bytes_max,
        publish_window=broker.settings.publish_window,
        incarnation=broker.incarnation,
    )
