"""Makes the channel that an address asks for: `grpc://host:port` over gRPC, anything else over native
frames.
"""

from __future__ import annotations

from typing import Final

from bowstring.ports.transport import Channel, Dialer
from bowstring.wire import grpc_extra
from bowstring.wire.native_client import NativeDialer

GRPC: Final = "grpc://"


class AddressDialer:
    """Makes channels to host:port, unix:path and grpc://host:port."""

    def __init__(self) -> None:
        self._native = NativeDialer()
        self._grpc: Dialer | None = None

    def dial(self, address: str) -> Channel:
        if not address.startswith(GRPC):
            return self._native.dial(address)
        if self._grpc is None:
            self._grpc = grpc_extra.load("grpc_client", f"the address {address}").GrpcDialer()
        assert self._grpc is not None
        return self._grpc.dial(address.removeprefix(GRPC))
