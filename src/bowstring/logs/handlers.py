"""The log of a command that runs a broker: all our records, and the warnings of other libraries, to
stderr.
"""

from __future__ import annotations

import logging
import sys

from bowstring.logs.formats import JsonFormat, TextFormat


def install(level: int, form: str = "text") -> None:
    """Sends the log to stderr from now on. `level` applies to our records; other libraries log
    warnings.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if form == "json" else TextFormat())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    logging.getLogger("bowstring").setLevel(level)
