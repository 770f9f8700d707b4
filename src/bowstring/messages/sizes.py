"""How many bytes Arrow data has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def size_of(data: Any) -> int:
    """Bytes of an array, a batch or a table. Of slices these are the bytes that they refer to; of slices of views, with a pyarrow that
    cannot tell those (22 and before), all bytes of the buffers."""
    try:
        return data.nbytes
    except pa.ArrowTypeError:
        return data.get_total_buffer_size()
