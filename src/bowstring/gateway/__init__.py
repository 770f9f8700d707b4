"""The services: decode, call the broker, encode.

`gateway` is the way in, `handshake` the first call, `topics` those about topics, `publishing` and `fetching` the two streams. Nothing
here decides anything about messages, and nothing knows of gRPC: what comes in are bytes through the port `bowstring.ports.transport`.
"""
