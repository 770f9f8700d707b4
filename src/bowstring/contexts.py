"""Names for servers, in `~/.config/bowstring/contexts.toml`, readable by its owner alone.

    current = "shop"

    [contexts.shop]
    server = "bowstring://shop.example.com"

The server of a command and of `connect()` is the first of: the server or the context that was
given, BOWSTRING_SERVER, BOWSTRING_CONTEXT, the context in use. Without any it is this machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from bowstring import errors

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DEFAULT_SERVER: Final = "bowstring://localhost:27769"


class Contexts(NamedTuple):
    """The contents of the file."""

    servers: dict[str, str]
    current: str | None


class Chosen(NamedTuple):
    """The server to connect to, and where that choice comes from."""

    server: str | Sequence[str]
    source: str


def directory(environment: Mapping[str, str]) -> Path:
    """Where a user's own files are."""
    home = environment.get("XDG_CONFIG_HOME") or (environment["HOME"] + "/.config" if environment.get("HOME") else "")
    if not home:
        raise errors.InvalidArgument("there is no home directory to keep settings in.", hint="Set HOME, or name a server: --server.")
    return Path(home) / "bowstring"


def path(environment: Mapping[str, str] = os.environ) -> Path:
    return directory(environment) / "contexts.toml"


def load(environment: Mapping[str, str] = os.environ) -> Contexts:
    """The contents of the file; empty if there is none."""
    try:
        file = path(environment)
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, errors.InvalidArgument):
        return Contexts({}, None)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.Rejected(f"{path(environment)} cannot be read: {_reason(error)}.", hint="Mend or remove that file.") from None
    import tomllib  # takes long to load, and most have no such file

    try:
        content: dict[str, Any] = tomllib.loads(text)
        servers = {str(name): entry["server"] for name, entry in content.get("contexts", {}).items()}
        current = content.get("current")
        if not all(isinstance(server, str) for server in servers.values()) or not isinstance(current, str | None):
            raise TypeError("a server is not text")
    except (tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError) as error:
        raise errors.Rejected(f"{file} is not a file of contexts: {error}.", hint="Mend it, or remove it and add them again.") from None
    return Contexts(servers, current)


def save(contexts: Contexts) -> None:
    """Replaces the file in one step. Only its owner may read it, because it will hold logins too."""
    import json

    file = path()
    lines = [] if contexts.current is None else [f"current = {json.dumps(contexts.current)}", ""]
    for name, server in sorted(contexts.servers.items()):
        lines += [f'[contexts."{name}"]', f"server = {json.dumps(server)}", ""]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines))
        new.replace(file)
    finally:
        with suppress(FileNotFoundError):
            new.unlink()


def choose(
    server: str | Sequence[str] | None, context: str | None, environment: Mapping[str, str] = os.environ, *, written: str = "--{}"
) -> Chosen:
    """The server of a command, or of a call; `written` says how the caller spells its arguments."""
    given, named = written.format("server"), written.format("context")
    if server is not None and context is not None:
        raise errors.InvalidArgument(f"both {given} and {named} were given.", hint="Give one of them.")
    if server is not None:
        return Chosen(server, given)
    if context is None and environment.get("BOWSTRING_SERVER"):
        return Chosen(environment["BOWSTRING_SERVER"], "BOWSTRING_SERVER")
    contexts = load(environment)
    said = named if context is not None else "BOWSTRING_CONTEXT" if environment.get("BOWSTRING_CONTEXT") else "the context in use"
    name = context or environment.get("BOWSTRING_CONTEXT") or contexts.current
    if name is None:
        return Chosen(DEFAULT_SERVER, "default")
    return Chosen(server_of(contexts, name), f"{said}, {name}")


def server_of(contexts: Contexts, name: str) -> str:
    """The server of a name. The error for an unknown name lists the known ones."""
    if name not in contexts.servers:
        names = ", ".join(f"'{known}'" for known in sorted(contexts.servers))
        known = f"There is {names}." if names else "There is none: bowstring context add NAME SERVER."
        raise errors.NotFound(f"there is no context '{name}'.", hint=known)
    return contexts.servers[name]


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"
