"""The broker: one loop, one actor per partition, one flusher.

Read in this order: `broker` (the face that the gateway calls, and what happens when an incarnation ends), `incarnation` (everything that
lives under one epoch), `actor` (a partition and those who wait for it), `flusher` (how changes become durable), `loader` (how state comes
back), then `publishing` and `fetching`, the two ends of a message's way.
"""
