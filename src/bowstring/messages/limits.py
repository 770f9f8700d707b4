"""The limits of messages, names and requests, for kit and broker alike.

Nothing here needs Arrow, so a kit that only asks for topics does not load it.
"""

from __future__ import annotations

from typing import Final

MOMENT_MAX: Final = 7_258_118_400_000_000
"""Moments are microseconds since 1970, from 1970-01-01 to before 2200-01-01, both UTC."""
ID_BYTES_MAX: Final = 256
NAME_BYTES_MAX: Final = 249
"""The longest name of a producer group, of a reader's position, of a client."""
DELETED_IDS_MAX: Final = 1000
"""How many ids one request to delete messages may have."""
LEASED_IDS_MAX: Final = 1000
"""How many ids one request to lease messages may have."""
MOVED_MAX: Final = 1_000_000
"""How many messages of a partition may have another due time than they were published with."""
RESERVED_PREFIX: Final = "bowstring-"
"""The broker writes attributes with this prefix (dead letters will carry their history in them),
publishers never.
"""
