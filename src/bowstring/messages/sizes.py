"""Counts the bytes of Arrow data."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def size_of(data: Any) -> int:
    """Bytes of an array, a batch or a table. For slices, the bytes that they refer to; for slices
    of views, pyarrow up to 22 cannot tell those, and all bytes of the buffers count.
    """
    try:
        return data.nbytes
    except pa.ArrowTypeError:
        return data.get_total_buffer_size()
