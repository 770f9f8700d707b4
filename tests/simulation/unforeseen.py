"""Calls that failed in a way that the product did not foresee: errors of Python itself, which a
server answers and logs.

A client sees an error like any other and tries again, so a world with such a bug may end well, or
get stuck. Either would hide what is wrong: in the product, or in a planted bug that stands in for
something with other arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Unforeseen(logging.Handler):
    """Reports every error that is logged with its exception."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._report(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def reported(report: Callable[[str], None]) -> Iterator[None]:
    """While a world runs, unforeseen errors of its servers are reported."""
    handler, logger = Unforeseen(report), logging.getLogger("bowstring.wire")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
