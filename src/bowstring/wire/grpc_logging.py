"""gRPC's own log, which goes to stderr past Python: an application that closes a connection should not find a line of C++ there.

Errors stay. Whoever wants more sets GRPC_VERBOSITY, which is left alone. It is read when gRPC makes its first channel or server.
"""

from __future__ import annotations

import os


def only_errors() -> None:
    """To be called before the first channel or server is made."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
