"""Sequences of native frames that went wrong: endless mutants of good ones.

Half of them are mutated as bytes, which breaks lengths and kinds; the others as frames, which are left out, doubled, exchanged, cut, or
get another call, kind, flag or payload: these get further.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bowstring.wire import native_frames as frames
from tests.fuzz.mutations import mutations

Parts = list[tuple[int, int, int, bytes]]
"""Kind, call, flags and payload of each frame."""

SIZES = (0, 1, 4, 8, 12, 100, 255, 4096, 16 * 1024, 16 * 1024 + 1, 70_000)
NUMBERS = (0, 1, 2, 255, 65_536, 2**31 - 1, 2**31, 2**32 - 1)


def good_sequences() -> list[Parts]:
    """What clients that follow the rules send."""
    hello = [opened(1, "Hello", 5000), (frames.MESSAGE, 1, frames.LAST, b"\x08\x01")]
    stream = [
        opened(1, "Publish", 0),
        (frames.MESSAGE, 1, 0, b"open"),
        (frames.MESSAGE, 1, 0, b"x" * 300),
        (frames.CREDIT, 1, 0, frames.NUMBER.pack(1 << 20)),
        (frames.MESSAGE, 1, frames.LAST, b"y" * 20_000),
    ]
    both = [
        opened(1, "Fetch", 0),
        opened(2, "Find", 100),
        (frames.MESSAGE, 1, 0, b"z"),
        (frames.MESSAGE, 2, 1, b"id"),
        (frames.END, 1, 0, b""),
    ]
    given_up = [
        opened(1, "Publish", 0),
        opened(2, "Publish", 1),
        (frames.CANCEL, 1, 0, b""),
        (frames.PING, 0, 0, b"8 bytes."),
        (frames.CANCEL, 2, 0, b""),
    ]
    refused = [opened(3, "Publish", 0), (frames.MESSAGE, 3, 0, b"refuse"), (frames.MESSAGE, 3, 0, b"bye"), opened(9, "Dance", 0)]
    return [hello, stream, both, given_up, refused]


def opened(call: int, method: str, milliseconds: int) -> tuple[int, int, int, bytes]:
    return frames.OPEN, call, 0, frames.NUMBER.pack(milliseconds) + method.encode()


def joined(parts: Parts, source: random.Random | None = None) -> bytes:
    """The bytes of a sequence. With a source, one length in a hundred lies."""
    sent = [frames.PREFACE]
    for kind, call, flags, payload in parts:
        length = len(payload)
        if source is not None and source.random() < 0.01:
            length = source.choice(NUMBERS)
        sent.append(frames.HEADER.pack(length, call, kind, flags, 0) + payload)
    return b"".join(sent)


def mutants(source: random.Random) -> Iterator[bytes]:
    """Sequences without end; one in twenty is as it should be."""
    good = good_sequences()
    of_bytes = mutations(source, [joined(parts) for parts in good])
    while True:
        chance = source.random()
        if chance < 0.05:
            yield joined(source.choice(good))
        elif chance < 0.5:
            yield next(of_bytes)
        else:
            yield joined(_mutated(source, good), source)


def _mutated(source: random.Random, good: list[Parts]) -> Parts:
    parts = list(source.choice(good))
    if source.random() < 0.3:
        parts += source.choice(good)
    for _ in range(source.choice((1, 1, 2, 4, 8))):
        if not parts:
            break
        at = source.randrange(len(parts))
        kind, call, flags, payload = parts[at]
        match source.randrange(8):
            case 0:
                del parts[at]
            case 1:
                parts.insert(source.randrange(len(parts) + 1), parts[at])
            case 2:
                other = source.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = kind, source.choice((call + 1, max(0, call - 1), *NUMBERS)) % 2**32, flags, payload
            case 4:
                parts[at] = source.randrange(13), call, flags, payload
            case 5:
                parts[at] = kind, call, source.randrange(256), payload
            case 6:
                parts[at] = kind, call, flags, source.randbytes(source.choice(SIZES))
            case _:
                parts[at] = kind, call, flags, frames.NUMBER.pack(source.choice(NUMBERS))
    return parts
