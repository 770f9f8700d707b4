"""Completes half-typed names of topics, readers, subscriptions and consumers, from the broker that
the command line would talk to.

A shell calls this at every Tab, so it takes a second at most, and prints nothing if there is no
broker.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

from bowstring import errors

SECONDS: Final = "1s"
NAMES_MAX: Final = 200


def topics(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The topics whose names begin with this text."""
    return _asked(ctx, lambda client: (topic.name for topic in client.topics(f"{_literal(incomplete)}*")))


def readers(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The names under which readers keep their positions."""
    return _asked(ctx, lambda client: _beginning(incomplete, client.positions()))


def subscriptions(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The subscriptions of the topic that was typed before."""
    topic = ctx.params.get("topic")
    return _asked(ctx, lambda client: _beginning(incomplete, client.subscriptions(topic)))


def consumers(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The consumers of the subscription that was typed before."""
    topic, name = _typed(ctx)[:2] or (None, None)
    return _asked(ctx, lambda client: _beginning(incomplete, client.subscription(topic, name).consumers))


def _typed(ctx: Any) -> list[str]:
    """The arguments behind the command. Where the value of an option is completed, they are not
    parsed yet, and stand in the variable of the shell.
    """
    words = (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()
    return [word for word in words[len(ctx.command_path.split()) :] if not word.startswith("-")]


def _beginning(incomplete: str, named: Iterable[Any]) -> Iterator[str]:
    return (each.name for each in named if each.name.startswith(incomplete))


def _asked(ctx: Any, ask: Any) -> list[str]:
    from bowstring.cli.connecting import connect

    found: dict[str, None] = {}
    with contextlib.suppress(errors.Error, OSError), connect(ctx.params.get("server"), ctx.params.get("context"), SECONDS) as client:
        for name in ask(client):
            found[name] = None
            if len(found) >= NAMES_MAX:
                break
    return list(found)


def _literal(text: str) -> str:
    """Escapes a text so that a glob matches it literally."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)
