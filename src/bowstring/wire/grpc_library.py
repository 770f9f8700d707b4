"""Configures gRPC's C library before it is imported, and guards it against forks.

It reads its variables once, when Python imports it, so modules that use gRPC import this one first.
A program that has imported gRPC before keeps its own choices.

**Its log** goes to stderr past Python, and none of it is for users: the kit raises what matters, in
our words. If GRPC_VERBOSITY is set, it stays.

**Forks.** The library has threads, and a forked child has none of them: calls would wait there for
ever. Its own support for forks makes it worse, children crash in one of four forks, so it is
switched off (unless GRPC_ENABLE_FORK_SUPPORT says otherwise): then a child that leaves gRPC alone
is safe, and one that wants to use it is refused here in a sentence. A child of a process that has
not used gRPC is free.
"""

from __future__ import annotations

import os

from bowstring import errors
from bowstring.wire import forks

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


class _Library:
    used = False
    """Whether this process has made a channel or a server."""
    inherited = False
    """Whether the parent of this forked process had made one."""


def prepare() -> None:
    """Call this before making a channel or a server. Raises Conflict in the fork of a process that
    has made one.
    """
    check_not_forked()
    _Library.used = True


def check_not_forked() -> None:
    """Raises Conflict in a process in which gRPC would hang."""
    if _Library.inherited:
        raise forked()


def forked() -> errors.Conflict:
    """The error for using gRPC in a forked child: objects from before the fork, or new ones."""
    return errors.Conflict(
        f"this process ({os.getpid()}) is a fork of one that uses gRPC ({os.getppid()}), and gRPC does not survive a fork.",
        hint="Connect by bowstring:// here, or fork before the first use of grpc://, or use multiprocessing.get_context('spawn').",
    )


def _note() -> None:
    _Library.inherited = _Library.inherited or _Library.used


forks.in_forked_child(_note)
