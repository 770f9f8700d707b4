"""Transport behind the thin port of `bowstring.ports.transport`: bytes in, bytes out, unary or streamed.

`codec` splits a message into header and batch without copying, `status` is the one place where errors become status codes and back.
Both know no transport. `grpc_server` and `grpc_client` are the port over grpcio, `loops` makes the event loop that both like best.
`generated` is made from `proto/` by `make proto`, and nobody edits it.
"""
