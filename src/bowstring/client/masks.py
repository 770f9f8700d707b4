"""Which rows of a batch a call means: booleans, one for each row, or the numbers of rows.

A mask is a list, or a column of NumPy, Arrow, Polars or pandas. One that does not fit is refused
before anything changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.client.arguments import shown

_RIGHT = "Use booleans, one for each row, or the numbers of rows, which count from 0."


def chosen(mask: Any, rows: int) -> npt.NDArray[np.bool_] | None:
    """Which rows are meant, as booleans; None for all."""
    if mask is None:
        return None
    array = _array(mask)
    if array.dtype == np.bool_:
        if len(array) != rows:
            raise errors.InvalidArgument(f"the mask has {len(array)} entries, the batch has {rows} rows.", hint="Give one for each row.")
        return array
    return _numbered(array, rows)


def _numbered(numbers: npt.NDArray[Any], rows: int) -> npt.NDArray[np.bool_]:
    wanted = np.zeros(rows, np.bool_)
    outside = (numbers < 0) | (numbers >= rows)
    if outside.any():
        raise errors.InvalidArgument(f"the batch has no row {numbers[outside][0]}.", hint=f"It has {rows}, counted from 0.")
    if len(np.unique(numbers)) < len(numbers):
        values, counts = np.unique(numbers, return_counts=True)
        raise errors.InvalidArgument(f"the mask names row {values[counts > 1][0]} twice.", hint="Name each row once.")
    wanted[numbers.astype(np.intp)] = True
    return wanted


def _array(mask: Any) -> npt.NDArray[Any]:
    if isinstance(mask, str | bytes | dict | set) or not hasattr(mask, "__len__"):
        raise _wrong(mask)
    try:
        array = _converted(mask)
    except (TypeError, ValueError) as error:
        raise _wrong(mask) from error
    if array.ndim != 1:
        raise errors.InvalidArgument(f"the mask has {array.ndim} dimensions.", hint=_RIGHT)
    if not len(array):
        return array if array.dtype == np.bool_ else np.zeros(0, np.intp)
    if array.dtype == np.object_:
        array = _uniform(mask, array)
    if array.dtype != np.bool_ and not np.issubdtype(array.dtype, np.integer):
        raise _wrong(mask)
    return array


def _converted(mask: Any) -> npt.NDArray[Any]:
    if isinstance(mask, np.ndarray | range):
        return np.asarray(mask)
    if isinstance(mask, Sequence):
        return np.fromiter(mask, np.object_, len(mask))
    if type(mask).__module__.startswith("pyarrow"):
        return mask.to_numpy(zero_copy_only=False) if hasattr(mask, "buffers") else mask.to_numpy()
    return np.asarray(mask.to_numpy() if hasattr(mask, "to_numpy") else mask)


def _uniform(mask: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A list, or a column with nulls: all of it is of one kind, or it is refused."""
    kinds = {type(each) for each in array}
    if kinds <= {bool, np.bool_}:
        return array.astype(np.bool_)
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return array.astype(np.int64)
    if any(kind.__name__ in ("NoneType", "NAType") for kind in kinds):
        raise errors.InvalidArgument("the mask has nulls.", hint="Say what they mean, as with fill_null(False).")
    raise _wrong(mask)


def _wrong(mask: Any) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"mask={shown(mask)} is of type {type(mask).__name__}, and no mask.", hint=_RIGHT)
