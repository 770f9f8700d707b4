"""What `make test` takes its turn by: it cannot run every simulation each time, and all are to have their turn."""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"


def sources_digest() -> bytes:
    """The same for the same sources, another one with every version of them."""
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*.py")))).digest()
