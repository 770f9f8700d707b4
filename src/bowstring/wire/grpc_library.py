"""Settings of gRPC's C library that must be there before it is imported, and its limits with forks.

The library reads its variables once, when Python imports it, so modules that use gRPC import this
one first. A program that has imported gRPC earlier keeps its own settings.

**Its log** goes to stderr past Python and is not for users: Bowstring raises what matters as an
error. If GRPC_VERBOSITY is set, it stays as it is.

**Forks.** The library has threads, and a forked child has none of them: calls would wait there for
ever. The library's own support for forks is worse: children crash in one of four forks. So it is
off (unless GRPC_ENABLE_FORK_SUPPORT says otherwise). A child that does not use gRPC is safe, and
`check_not_forked` refuses a child that does. A child of a process that has not used gRPC may use
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from bowstring import errors

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


class _Library:
    used = False
    """This process has made a channel or a server."""
    inherited = False
    """The parent of this fork had made one."""


def prepare() -> None:
    """Call this before you make a channel or a server.
    Raises Conflict in the fork of a process that has made one."""
    check_not_forked()
    _Library.used = True


def check_not_forked() -> None:
    """Raises Conflict where gRPC would hang."""
    if _Library.inherited:
        raise forked()


def forked() -> errors.Conflict:
    """The error of a forked child that uses what was made before the fork, or makes another."""
    return errors.Conflict(
        f"this process ({os.getpid()}) is a fork of one that uses Bowstring ({os.getppid()}), and connections do not survive a fork.",
        hint="Start it with multiprocessing.get_context('spawn'), or fork before the first connect(), and connect in each process.",
    )


def in_forked_child(act: Callable[[], None]) -> None:
    """Runs `act` in every child that is forked from now on, before anything else runs there."""
    os.register_at_fork(after_in_child=act)


def _note() -> None:
    _Library.inherited = _Library.inherited or _Library.used


in_forked_child(_note)
