"""Arrow messages that went wrong: endless mutants of good ones.

Flipped bits alone find little, because nearly all of them land in values, where every byte is right. So half of the mutations go into
the first 700 bytes, where the metadata is, and several know what stands there: numbers of 32 and 64 bits, aligned to their size,
which are made a little or absurdly wrong, or exchanged with each other.

    for mutant in itertools.islice(mutations(random.Random(seed), messages), 1000): ...

The same generator and the same seeds give the same mutants.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

HEAD_BYTES = 700
EXTREMES = (b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff\xff\xff\xff", b"\x00\x00\x00\x40", b"\x00\x00\x00\x00")
EDGES = (0, 1, 127, 128, 255)
STEPS = (-64, -8, -4, -1, 1, 4, 8, 64)


def mutations(rng: random.Random, seeds: Sequence[bytes]) -> Iterator[bytes]:
    """Mutants without end, each of one of the seeds with one to eight things wrong."""
    while True:
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
            rng.choice(MUTATIONS)(rng, data)
            if not data:
                data = bytearray(b"\0")
        if rng.random() < 0.05:
            data = spliced(rng, data, rng.choice(seeds))
        yield bytes(data)


def somewhere(rng: random.Random, data: bytearray, alignment: int = 1) -> int:
    """A position, half of the time in the metadata."""
    end = min(len(data), HEAD_BYTES) if rng.random() < 0.5 else len(data)
    return rng.randrange(end) // alignment * alignment


def flip_a_bit(rng: random.Random, data: bytearray) -> None:
    data[somewhere(rng, data)] ^= 1 << rng.randrange(8)


def set_a_byte(rng: random.Random, data: bytearray) -> None:
    data[somewhere(rng, data)] = rng.choice(EDGES)


def set_an_extreme(rng: random.Random, data: bytearray) -> None:
    at = somewhere(rng, data, 4)
    data[at : at + 4] = rng.choice(EXTREMES)[: len(data) - at]


def step_a_number(rng: random.Random, data: bytearray) -> None:
    size = rng.choice((4, 8))
    at = somewhere(rng, data, size)
    number = int.from_bytes(data[at : at + size], "little") + rng.choice(STEPS)
    data[at : at + size] = (number % 256**size).to_bytes(size, "little")[: len(data) - at]


def exchange_numbers(rng: random.Random, data: bytearray) -> None:
    one, other = somewhere(rng, data, 8), somewhere(rng, data, 8)
    if max(one, other) + 8 <= len(data):
        data[one : one + 8], data[other : other + 8] = data[other : other + 8], data[one : one + 8]


def cut_out(rng: random.Random, data: bytearray) -> None:
    at = somewhere(rng, data)
    del data[at : at + rng.choice((1, 4, 8, 16, rng.randrange(1, 64)))]


def put_in(rng: random.Random, data: bytearray) -> None:
    at = somewhere(rng, data)
    data[at:at] = rng.randbytes(rng.choice((1, 4, 8, 16)))


def repeat(rng: random.Random, data: bytearray) -> None:
    at, size = somewhere(rng, data, 8), rng.choice((8, 16, 64))
    data[at:at] = data[at : at + size]


def shorten(rng: random.Random, data: bytearray) -> None:
    del data[len(data) - rng.choice((1, 7, 8, len(data) // 2)) :]


def lengthen(rng: random.Random, data: bytearray) -> None:
    data += rng.choice((bytes(1), bytes(8), rng.randbytes(8)))


def spliced(rng: random.Random, data: bytearray, other: bytes) -> bytearray:
    """The beginning of one message with the end of another."""
    at = rng.randrange(len(data)) // 8 * 8
    return data[:at] + other[at:] or bytearray(b"\0")


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip_a_bit,
    flip_a_bit,
    set_a_byte,
    set_an_extreme,
    step_a_number,
    step_a_number,
    exchange_numbers,
    cut_out,
    put_in,
    repeat,
    shorten,
    lengthen,
)
