"""The published data, the same for us and for the peers: values, keys and attributes. Nothing here
needs more than NumPy.
"""

from __future__ import annotations

import numpy as np

VALUES = 1024
KEYS = 1000
COUNTRIES = ("CH", "DE", "FR", "IT", "AT", "LI", "NL", "BE")


def payloads(size: int) -> list[bytes]:
    """The values. They come from a fixed generator, so that the reader's process knows what the
    publisher has sent.
    """
    blob = np.random.Generator(np.random.PCG64(size)).bytes(size * VALUES)
    return [blob[number * size : (number + 1) * size] for number in range(VALUES)]


def keys() -> list[bytes]:
    return [f"customer-{number}".encode() for number in range(KEYS)]
