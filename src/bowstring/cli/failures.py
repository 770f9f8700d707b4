"""Reports an error as one sentence on stderr, or as a JSON object if the user asked for JSON, with
an exit code that tells a script what to do about it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, Final

import typer

from bowstring import errors
from bowstring.cli import options, pointers

EXIT_CODES: Final[tuple[tuple[type[errors.Error], int], ...]] = (
    (errors.InvalidArgument, 2),
    (errors.Unavailable, 3),
    (errors.OutcomeUnknown, 4),
    (errors.Corrupt, 5),
    (errors.Error, 1),
)

# Arguments of the kit that are flags here, as the kit's error messages write them:
# `start='beginning'`, `Omit where=.`
_KEYWORD: Final = re.compile(
    r"(?<![\w-])(partitions|retention|retention_bytes|deduplication|start|end|name|columns|where|uncommitted|delay|at|expires|timeout|group"
    r"|attributes|id|key|compression|mode|lease|credit|concurrency|consumer|older_than|max_deliveries|backoff|dead_letters|unsettled"
    r"|keep_max|to|limit|rate|reason)=([^\s.,;]?)"
)


class _AsJson:
    """Whether the user asked for JSON; then errors are JSON too."""

    asked = False


as_json: Final = _AsJson()


def look_ahead(arguments: Sequence[str]) -> None:
    """Finds out whether the user asks for JSON. Runs before the command line is parsed, because
    parsing may fail.
    """
    pairs = zip(("", *arguments), arguments, strict=False)
    as_json.asked = any(
        argument in ("-ojson", "--output=json") or (before in ("-o", "--output") and argument == "json") for before, argument in pairs
    )


def exit_code(error: errors.Error) -> int:
    """The exit code of an error. A partly refused batch has the exit code of its first refused row."""
    if isinstance(error, errors.PartlyRefused) and isinstance(error.__cause__, errors.Error):
        code = exit_code(error.__cause__)
        return 1 if code == 2 else code
    return next(code for cls, code in EXIT_CODES if isinstance(error, cls))


def tell(error: errors.Error) -> None:
    """One sentence on stderr, or an object."""
    if as_json.asked:
        said = {"error": error.kind, "message": as_flags(error.message), "hint": as_flags(error.hint), "details": error.details}
        return _note(json.dumps(said, ensure_ascii=False, separators=(",", ":")))
    return _note(f"bowstring: {as_flags(str(error))}")


def as_flags(text: str) -> str:
    """Rewrites a message of the Python kit for people at a shell: `exists_ok=True` becomes
    `--exists-ok`.
    """
    text = re.sub(r"client\.create_topic\('([^']*)'\)", r"`bowstring topic create \1`", text)
    text = text.replace("client.positions()", "`bowstring position list`").replace("producer.delete(ids)", "`bowstring message delete`")
    text = re.sub(r"client\.create_subscription\('([^']*)', '([^']*)'\)", r"`bowstring subscription create \1 \2`", text)
    text = re.sub(r"client\.subscriptions\('([^']*)'\)", r"`bowstring subscription list \1`", text)
    text = re.sub(r"\bcreate=(True|False)\b", lambda match: "--create" if match[1] == "True" else "--no-create", text)
    text = re.sub(r"^(where|keep_max) (is not|goes)", lambda match: f"{_flag(match[1])} {match[2]}", text)
    text = re.sub(r"Omit (keep_max|dead_letters)\b=?", lambda match: f"Omit {_flag(match[1])}", text)
    text = re.sub(r"belongs to group '([^']*)'\. Only its owner may (\w+) it\.", r"belongs to group '\1'. To \2 it: --group '\1'.", text)
    text = re.sub(r"\b(exists_ok|missing_ok|uncommitted)=True\b", lambda match: _flag(match[1]), text)
    return _KEYWORD.sub(lambda match: f"{_flag(match[1])}{' ' if match[2] else ''}{match[2]}", text)


def _flag(name: str) -> str:
    return "--" + {"attributes": "attribute"}.get(name, name).replace("_", "-")


def tell_usage(error: Any) -> None:
    """Reports a mistake in the command line, in one line that names the command."""
    path = error.ctx.command_path if error.ctx is not None else "bowstring"
    said = " ".join(_reworded(error).split())
    if as_json.asked:
        told = {"error": "usage", "message": said, "hint": f"{path} --help", "details": {}}
        return _note(json.dumps(told, ensure_ascii=False, separators=(",", ":")))
    return _note(f"{path}: {said}")


def _reworded(error: Any) -> str:
    """Replaces some of the parser's messages by ours, which say what to do; keeps the others."""
    said: str = error.format_message()
    if match := re.match(r"Missing (?:argument|parameter:?|option) '?([^'.]+)'?", said):
        return f"{match[1]} is missing: `{_usage(error)}`."
    if match := re.match(r"No such option:? '?(-[^\s'.]*)", said):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts] if error.ctx is not None else []
        close = difflib.get_close_matches(match[1], known, n=1)
        pointer = pointers.option(match[1], _usage(error))
        return f"there is no option {match[1]} here. {pointer or (f'Did you mean {close[0]}?' if close else _help(error))}"
    if match := re.match(r"Option '(\S+)' requires an argument", said):
        return f"{match[1]} needs a value. {_help(error)}"
    if match := re.match(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", said):
        return f"'{match[1]}' is too much here: `{_usage(error)}`."
    if said.startswith("Missing command"):
        return f"a command is missing. {_help(error)}"
    said = re.sub(r"^Invalid value for '?([^\s':]+)'?(?: / '?[^\s':]+'?)*: ", r"\1: ", said)
    return re.sub(r"^Invalid value: ", "", said)


def _usage(error: Any) -> str:
    return re.sub(r"[{}]", "", error.ctx.get_usage().removeprefix("Usage: ")) if error.ctx is not None else "bowstring --help"


def _help(error: Any) -> str:
    return f"`{error.ctx.command_path} --help` lists what there is." if error.ctx is not None else "See --help."


def _note(text: str) -> None:
    typer.echo(text if as_json.asked else options.fitted(text), err=True)
