"""The due times of the rows of one page: what the page itself tells, or its entry when the page cannot be read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.reading.visibility import moments_of
from bowstring.core.due_blocks import NO_DUES, Dues, dues_of
from bowstring.core.pages import PageEntry, decode_header
from bowstring.messages import encoding
from bowstring.messages.schema import DUE, EXPIRES
from bowstring.ports.store import Page


def dues_in(page: Page, entry: PageEntry) -> Dues:
    """The due times of a page's rows."""
    header = decode_header(page.header)
    if not header.columns & DUE:  # the rows that had one were repeats, and are not stored here
        return NO_DUES
    moments = moments_of(encoding.decode(header.columns, page.body).column("due"))
    return dues_of(moments, np.arange(entry.first_offset, entry.end, dtype=np.int64))


def expiries_in(page: Page, entry: PageEntry) -> NDArray[np.int64]:
    """When each row of a page expires; 0 for never."""
    header = decode_header(page.header)
    if not header.columns & EXPIRES:
        return np.zeros(entry.rows, np.int64)
    return moments_of(encoding.decode(header.columns, page.body).column("expires"))


def all_at_last(entry: PageEntry) -> Dues:
    """Of a page that cannot be read any row may be the last that is due."""
    return dues_of(np.full(entry.rows, entry.due, np.int64), np.arange(entry.first_offset, entry.end, dtype=np.int64))
