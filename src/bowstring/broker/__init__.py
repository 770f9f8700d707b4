"""The broker: one loop, one actor per partition, one flusher.

Read in this order: `broker` (the face that the gateway calls, and what happens when an incarnation
ends), `incarnation` (everything that lives under one epoch); then three rooms. `log` decides about
changes and makes them durable, `reading` finds stored messages and delivers them, `upkeep` works
between the flushes.
"""
