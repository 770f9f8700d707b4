"""Why a stream has ended, from the ends of the tasks that read and write it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from bowstring import errors


def why(ends: Iterable[Any]) -> BaseException:
    """The first of these ends that is an error. Put the reading task first: it knows better than
    the writing one. A bug comes before all others.
    """
    found = [end for end in ends if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError)]
    bugs = [end for end in found if not isinstance(end, errors.Error)]
    return (bugs or found or [errors.Unavailable("the stream has ended.")])[0]
