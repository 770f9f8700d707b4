"""What a forked child may do with the objects of its parent: nothing. Each use raises an error.

A fork copies the memory of a process, but only the thread that forks. A connection that was made
before has no loop in the child, and its socket belongs to the parent. So objects from before a fork
raise `Conflict` in the child at once, and new ones work there.

The child also lets go of the parent's sockets (`parents_own`): /dev/null takes their places. So
nothing that the child does with its copies, garbage collection included, reaches the parent's
connections, and a connection that the parent closes is closed, however long its children live. The
numbers of the files stay taken: an object that closes its own file must not close another one.

gRPC has rules of its own: see `grpc_library`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from bowstring import errors


class _Line:
    forks = 0
    """How many forks lie between the first process of this program and this one."""


_sockets: WeakSet[Any] = WeakSet()


def generation() -> int:
    """A number that is another one in each forked child."""
    return _Line.forks


def forked() -> errors.Conflict:
    """The error for using an object in a process that was forked after the object was made."""
    return errors.Conflict(
        f"this was made before process {os.getpid()} was forked from process {os.getppid()}, and connections do not survive a fork.",
        hint="Connect anew in this process: bowstring.connect().",
    )


def check(generation: int) -> None:
    """Raises Conflict if this process was forked after that generation."""
    if generation != _Line.forks:
        raise forked()


def in_forked_child(act: Callable[[], None]) -> None:
    """Runs this function first in every child that is forked from now on."""
    os.register_at_fork(after_in_child=act)


def parents_own(holder: Any) -> None:
    """Children that are forked from now on let go of this socket, or of that of this protocol's
    `transport`. It is not kept alive.
    """
    _sockets.add(holder)


def _let_go() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for holder in tuple(_sockets):
        number = _file_number(holder)
        if number >= 0:
            os.dup2(nothing, number, inheritable=False)
    _sockets.clear()
    os.close(nothing)


def _file_number(holder: Any) -> int:
    """The number of an open file; -1 if there is none any more."""
    if not hasattr(holder, "fileno"):
        transport = getattr(holder, "transport", None)
        holder = None if transport is None or transport.is_closing() else transport.get_extra_info("socket")
    return -1 if holder is None else holder.fileno()


def _count() -> None:
    _Line.forks += 1
    _let_go()


in_forked_child(_count)
