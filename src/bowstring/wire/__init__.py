"""Transport behind the thin port of `bowstring.ports.transport`: bytes in, bytes out, unary or
streamed.

`codec` splits a message into header and batch without copying, `error_messages` turns errors into
messages and back. Both know no transport. The port is there twice: over native frames (`native_*`),
which kit and broker use, and over gRPC (`grpc_*`), which needs the extra `bowstring[grpc]`; no other
module imports grpcio. `front_door` serves both at one port, `dialer` chooses by the address. `loops`
makes the fastest event loop, `forks` guards against forks. `make proto` generates `generated` from
`proto/`; never edit it.
"""
