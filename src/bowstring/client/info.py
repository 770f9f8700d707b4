"""What a client knows of the other side: `client.info`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker as it introduced itself."""

    address: str
    software: str
    protocol: int
    incarnation: int
    """Rises with every start of the broker."""


@dataclass(frozen=True, slots=True)
class Info:
    """What a client knows of the other side."""

    brokers: tuple[BrokerInfo, ...]
    cluster: str
    """Names the data, the same after a restart."""
    software: str
    """This kit's own name and version."""
    drift: float
    """Seconds by which this machine's clock is ahead of the brokers'."""
