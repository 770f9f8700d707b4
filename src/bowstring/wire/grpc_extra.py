"""gRPC is an extra, `bowstring[grpc]`: loads what needs it, or says how to install it."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from bowstring import errors

PACKAGES: Final = ("grpc", "grpc_health", "grpc_reflection")
INSTALL: Final = "pip install 'bowstring[grpc]'"


def load(module: str, asked: str) -> ModuleType:
    """Imports a module of `bowstring.wire` that needs gRPC. Raises NotSupported if gRPC is not
    installed; `asked` says who or what needs it.
    """
    check(asked)
    try:
        return importlib.import_module(f"bowstring.wire.{module}")
    except ImportError as error:  # of another version, or broken
        raise _missing(asked) from error


def check(asked: str) -> None:
    """Raises NotSupported if gRPC is not installed. Imports nothing."""
    if not all(map(_is_installed, PACKAGES)):
        raise _missing(asked)


def _missing(asked: str) -> errors.NotSupported:
    return errors.NotSupported(f"{asked} needs gRPC, which is not installed here.", hint=f"Install it: {INSTALL}.")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False
