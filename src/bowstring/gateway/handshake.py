"""The first call on a connection: the version of the protocol to speak, the limits, and the time."""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.gateway.requests import HelloRequest, Welcome
from bowstring.wire.protocol import SPOKEN, Versions

_SOFTWARE_SHOWN_MAX: Final = 100


def hello(broker: Broker, software: str, now: int, request: HelloRequest) -> Welcome:
    """Gives the newest version that both sides speak, the limits to keep, and the time here."""
    theirs = Versions(min(request.protocol_min, request.protocol), request.protocol)
    if theirs.newest < SPOKEN.oldest or theirs.oldest > SPOKEN.newest:
        client = f"this client ({request.software[:_SOFTWARE_SHOWN_MAX]})" if request.software else "this client"
        raise errors.NotSupported(
            f"{client} speaks version {theirs} of the protocol, this broker ({software}) speaks {SPOKEN}.",
            hint="Use a newer broker, or an older client." if theirs.oldest > SPOKEN.newest else "Use a newer client.",
            details={"protocol": str(SPOKEN.newest), "protocol_min": str(SPOKEN.oldest)},
        )
    return Welcome(
        software=software,
        protocol=min(request.protocol, SPOKEN.newest),
        protocol_min=SPOKEN.oldest,
        broker_time=now,
        cluster=broker.cluster,
        batch_bytes_max=broker.settings.batch_bytes_max,
        publish_window=broker.settings.publish_window,
        incarnation=broker.incarnation,
        keeping_time=broker.keeping_time(),
    )
