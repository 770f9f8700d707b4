"""Turns typed arguments into values: texts, whole numbers, switches, and lists of them. Our
commands take nothing else.

typer would do this with pydantic, whose import takes longer than most commands do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, get_args, get_origin

import typer.core

NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+|\d+", re.ASCII)
"""A whole number, with commas if you like: tables print 5,001."""


def number(text: str) -> int:
    """Parses a whole number. Raises ValueError if the text is not one."""
    if not NUMBER.fullmatch(text.strip().removeprefix("-")):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text.replace(",", ""))


class Plain:
    """Turns the text of one parameter into its value."""

    def __init__(self, kind: Any) -> None:
        self._is_list = get_origin(kind) is list
        self._kind: Any = get_args(kind)[0] if self._is_list else kind

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value; typer calls it by this name."""
        if param.multiple or param.nargs == -1:
            return [self._one(each, param, ctx) for each in value or ()]
        return None if value is None else self._one(value, param, ctx)

    def _one(self, text: Any, param: Any, ctx: Any) -> Any:
        if self._kind is not int or isinstance(text, bool):
            return text
        try:
            found = number(str(text))
        except ValueError:
            raise _wrong("a whole number is needed.", param, ctx) from None
        least, most = getattr(param, "min", None), getattr(param, "max", None)
        if least is not None and found < least:
            raise _wrong(f"it is at least {least:,}.", param, ctx)
        if most is not None and found > most:
            raise _wrong(f"it is at most {most:,}.", param, ctx)
        return found


def use_plain() -> None:
    """Replaces typer's own conversion for the kinds above. A typer version without this hook works
    too, but loads more slowly.
    """
    make = getattr(typer.core, "build_runtime_param", None)
    if make is None or isinstance(make, partial):
        return

    def choose(theirs: Callable[[Any], Any], descriptor: Any) -> Any:
        kind = descriptor.annotation
        plain = get_args(kind)[0] if get_origin(kind) is list else kind
        return Plain(kind) if plain in (str, int, bool) else theirs(descriptor)

    setattr(typer.core, "build_runtime_param", partial(choose, make))  # noqa: B010 -- it is not meant to be set


def _wrong(said: str, param: Any, ctx: Any) -> Exception:
    from typer._click.exceptions import BadParameter

    return BadParameter(said, ctx=ctx, param=param)
