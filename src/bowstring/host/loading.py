"""Loads modules without looking for garbage meanwhile: what an import makes stays, and scanning it
again and again takes a tenth of the time that a first broker needs.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def loading() -> Generator[None]:
    """The block imports modules."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
