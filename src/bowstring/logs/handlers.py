"""The log of a command that is a broker: everything of ours, and the warnings of others, to stderr."""

from __future__ import annotations

import logging
import sys

from bowstring.logs.formats import JsonFormat, TextFormat


def install(level: int, form: str = "text") -> None:
    """From here on lines go to stderr. `level` is for ours; of other libraries warnings are told."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if form == "json" else TextFormat())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    logging.getLogger("bowstring").setLevel(level)
