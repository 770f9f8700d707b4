"""The transport port (`bowstring.ports.transport`) over gRPC: bytes in, bytes out.

`codec` splits a message into header and batch without copying. `status` turns errors into status
codes and back. Both are independent of the transport. `grpc_server` and `grpc_client` implement the
port with grpcio, `loops` makes the event loop that serves both best. `make proto` generates
`generated` from `proto/`; do not edit it.
"""
