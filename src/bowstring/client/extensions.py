"""The extensions of a consumer that are under way: what its program asks for, and what the kit does
by itself (`lease_watch`).

Those of the program are sent again after a break; for its own the kit looks again which leases need
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import numpy as np

from bowstring import errors
from bowstring.client import lease_marks
from bowstring.client.lease_extension import Extension
from bowstring.client.lease_marks import Rows
from bowstring.client.leased_page import LeasedPage
from bowstring.client.settlements import Settlements
from bowstring.wire.generated import bowstring_pb2 as pb


class Extensions:
    """The extensions of a consumer that are under way. On the loop."""

    def __init__(self, settlements: Settlements) -> None:
        self._settlements = settlements
        self._numbers = count(1)
        self._unanswered: dict[int, Extension] = {}

    def to_write(self, extensions: Iterable[Extension], now: float) -> list[pb.ExtendRows]:
        """Requests as they are written now."""
        messages: list[pb.ExtendRows] = []
        for extension in extensions:
            extension.written = now
            number = next(self._numbers)
            self._unanswered[number] = extension
            messages.append(extension.message(number))
        return messages

    def again(self) -> list[Extension]:
        """After a break: what the program has asked for and what is not answered. For whole leases
        the kit looks again.
        """
        left, self._unanswered = list(self._unanswered.values()), {}
        return [extension for extension in left if not extension.leases]

    def answered(self, told: pb.RowsExtended, now: int) -> Extension | None:
        """Takes an answer. The rows that were refused are lost. An extension never shortens."""
        extension = self._unanswered.pop(told.number, None)
        if extension is None:
            return None
        parts = extension.parts or [(page, None) for lease in extension.leases for page in lease.pages]
        for refused in told.refused:
            for page, rows in parts:
                if page.lease.grant == refused.grant:
                    self._refuse(extension, page, rows, refused, now)
        extension.extend(told.until)
        extension.decide()
        return extension

    def _refuse(self, extension: Extension, page: LeasedPage, rows: Rows, told: pb.RefusedRows, now: int) -> None:
        own = np.arange(page.rows) if rows is None else rows
        if told.offsets:
            own = np.intersect1d(own, lease_marks.rows_at(page, list(told.offsets), list(told.rows)))
        if len(own):
            extension.refuse(page, own)
            self._settlements.refusal(page, own, told, now)
            page.lose_rows(own)

    def fail(self, error: errors.Error) -> None:
        """No broker answers any more."""
        left, self._unanswered = self._unanswered, {}
        for extension in left.values():
            extension.decide(error)
