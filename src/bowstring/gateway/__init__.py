"""The services: decode, call the broker, encode.

`gateway` is the way in. The calls of the table (`bowstring.ports.calls`) are of two kinds. Handlers
answer unary calls: `handshake`, `topics`, `messages`, `positions`, `subscriptions`, with their
values in `requests`. Sessions serve streams: `publish_session`, `fetch_session`, `consume_session`,
`backup_session`, each with its own values. Both take and give values; `protobuf` is the codec that
makes them of bytes, with `protobuf_queue` for the calls about subscriptions. Nothing here decides
anything about messages, and nothing knows gRPC.
"""
