"""One client a process for each server: a Python worker runs many tasks, and connecting for each would cost more than a small task.

Spark forks its workers before anything of ours is loaded, so that no connection is ever inherited.
"""

from __future__ import annotations

import os
from typing import Any

from bowstring.client.sync import Client, connect
from bowstring.spark.options import Options

_CLIENTS: dict[tuple[Any, ...], Client] = {}


def client(options: Options) -> Client:
    """The client of this process for the server that the options name."""
    key = (os.getpid(), options.server, options.context, options.token)
    if key not in _CLIENTS:
        _CLIENTS[key] = connect(options.server, context=options.context, token=options.token, name="spark")
    return _CLIENTS[key]


def close() -> None:
    """Closes what this process has open."""
    while _CLIENTS:
        _CLIENTS.popitem()[1].close()
