"""One line of the table of figures."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table. `met` is None where there is no bar, or nothing to judge it by."""

    work: str
    ours: str
    kafka: str = ""
    share: str = ""
    bar: str = ""
    met: bool | None = None
