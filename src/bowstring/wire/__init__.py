"""Transport behind the thin port of `bowstring.ports.transport`: bytes in, bytes out, unary or
streamed.

`codec` splits a message into header and batch without copying, `status` is the one place where
errors become status codes and back. Both know no transport. `grpc_server` and `grpc_client` are the
port over grpcio, `loops` makes the fastest event loop for both. `make proto` generates `generated`
from `proto/`; never edit it.
"""
