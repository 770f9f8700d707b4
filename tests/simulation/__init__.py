"""The simulated world: the whole broker and its clients in one thread, from one seed.

Everything that the product asks of the outside (`bowstring.ports`) is answered here by something that is drawn from the seed and that
fails on purpose: time (`loop`, `clock`), the disk (`medium`, `disk`), SQLite's files on that disk (`vfs`), the network
(`network`), which carries bytes (`byte_stream`) for the product's own transport; a `ledger` compares what goes into each call with what
comes out. A `node` is a machine whose process dies and starts again, a `nemesis` makes all this happen, `options` says
which faults a seed has, and `world` holds it together. The same seed gives the same events in the same order, which `digest` proves.
"""
