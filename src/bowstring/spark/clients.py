"""One client a process for each server: a Python worker runs many tasks, and connecting for each
would cost more than a small task.

Spark forks its workers before it loads any module of ours, so no connection is ever inherited. This
module loads the kit on first use: some of the processes that Spark starts only look at options and
columns, and starting them is most of the cost of a small query.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

from bowstring.spark.options import Options

if TYPE_CHECKING:
    from bowstring.client.sync import Client

_CLIENTS: dict[tuple[Any, ...], Client] = {}


def client(options: Options) -> Client:
    """The client of this process for the server that the options name."""
    key = (os.getpid(), options.server, options.token, options.timeout_seconds)
    if key not in _CLIENTS:
        from bowstring.client.sync import connect

        _CLIENTS[key] = connect(options.server, token=options.token, name="spark", timeout=options.timeout_seconds)
        gc.freeze()  # a worker collects garbage after each task; freezing the loaded modules saves a tenth of a second
    return _CLIENTS[key]


def close() -> None:
    """Closes the clients of this process."""
    while _CLIENTS:
        _CLIENTS.popitem()[1].close()
