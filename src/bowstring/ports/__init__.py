"""The outside world as arguments.

Everything that is not a pure decision comes in through one of these small interfaces: the clock,
randomness, the disk, threads that run blocking calls, the store of pages, the catalog, and the
transport with its calls and codecs. The product implements each over the real machine
(`bowstring.host`, `bowstring.store`, `bowstring.catalog`, `bowstring.wire`, `bowstring.gateway`);
the simulation has a second implementation, seeded, with faults. Therefore nothing else in the
source may read a clock, draw a random number or open a file.
"""
