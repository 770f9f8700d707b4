"""Facts of the machine that a figure is worth nothing without."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs"}
VERSIONS_TOLD = ("bowstring", "pyarrow", "grpcio", "apsw", "uvloop", "numpy")


def facts(folder: Path) -> dict[str, str | int | float]:
    """The facts that go with every result: processor, kernel, the disk of the data directory,
    versions.
    """
    device, kind = file_system(folder)
    return {
        "cores": os.cpu_count() or 0,
        "processor": _field("/proc/cpuinfo", "model name"),
        "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "disk": f"{device}, {kind}",
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        **{name: _version(name) for name in VERSIONS_TOLD},
    }


def file_system(folder: Path) -> tuple[str, str]:
    """Device and kind of the file system that a folder is on."""
    found = ("unknown", "unknown")
    longest = -1
    for line in Path("/proc/mounts").read_text().splitlines():
        device, mounted_at, kind = line.split()[:3]
        if folder.resolve().is_relative_to(mounted_at) and len(mounted_at) >= longest:
            found, longest = (device, kind), len(mounted_at)
    return found


def in_memory(folder: Path) -> bool:
    """Is the folder on a file system where a sync means nothing?"""
    return file_system(folder)[1] in MEMORY_FILE_SYSTEMS


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
