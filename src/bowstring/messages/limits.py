"""What messages, names and requests are held to, by kit and broker alike.

Nothing here needs Arrow, so a kit that only asks for topics loads none.
"""

from __future__ import annotations

from typing import Final

MOMENT_MAX: Final = 7_258_118_400_000_000
"""Moments are microseconds since 1970, from 1970-01-01 to before 2200-01-01, both UTC."""
ID_BYTES_MAX: Final = 256
NAME_BYTES_MAX: Final = 249
"""Of a producer group, of a reader's position, of a client."""
DELETED_IDS_MAX: Final = 1000
"""How many ids one request to delete messages may have."""
RESERVED_PREFIX: Final = "bowstring-"
"""Attributes that begin like this are written by the broker (dead letters carry their history so), never by publishers."""
