"""`bowstring.toml`: which file applies, and its settings, with the line of each key for error
messages.

The file is the first of --config, BOWSTRING_CONFIG, ./bowstring.toml,
~/.config/bowstring/bowstring.toml and /etc/bowstring/bowstring.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bowstring import contexts, errors, settings

NAME: Final = "bowstring.toml"
SYSTEM: Final = Path("/etc/bowstring")
_TABLE: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")


def find(given: str | None, environment: Mapping[str, str]) -> Path | None:
    """The file that applies; None if there is none. Raises InvalidArgument if a named file does not
    exist.
    """
    for named, source in ((given, "--config"), (environment.get("BOWSTRING_CONFIG"), "BOWSTRING_CONFIG")):
        if named:
            named = settings.at_home(named, source, environment)
            if not Path(named).is_file():
                raise errors.InvalidArgument(f"{source} = {named} is not a file.", hint=f"Name a {NAME}, or omit {source}.")
            return Path(named)
    places = [Path()]
    if environment.get("XDG_CONFIG_HOME") or environment.get("HOME"):
        places.append(contexts.directory(environment))
    return next((place / NAME for place in (*places, SYSTEM) if (place / NAME).is_file()), None)


def layer(file: Path | None) -> settings.Layer:
    """The settings of a file. Raises InvalidArgument with the file and the line of a mistake."""
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise errors.InvalidArgument(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise errors.InvalidArgument(f"{file} is not UTF-8.", hint="Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise errors.InvalidArgument(f"{_toml(file, str(error))}.", hint='Use: retention = "7d".') from None
    lines = _lines(text)
    return settings.from_file(content, lambda key: f"{file}{f' line {lines[key]}' if key in lines else ''}: {key}")


def _toml(file: Path, said: str) -> str:
    """Rewrites `Invalid value (at line 3, column 5)` so that the line stands where it does in our
    own messages.
    """
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", said)
    if match is None:
        return f"{file} is not TOML: {said}"
    return f"{file}{f' line {match[2]}' if match[2] else ', at its end,'} is not TOML: {match[1][:1].lower()}{match[1][1:]}"


def _lines(text: str) -> dict[str, int]:
    """The line of each key. Good enough for files written by hand; errors about a key that is not
    found have no line.
    """
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TABLE.match(line):
            table = _bare(match[1]) + "."
        elif match := _KEY.match(line):
            found.setdefault(table + _bare(match[1]), number)
    return found


def _bare(key: str) -> str:
    return re.sub(r"[\"' ]", "", key)
