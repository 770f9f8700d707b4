"""Completes half-typed names of topics and readers, from the broker that the command line would
talk to.

A shell calls this at every Tab, so it takes a second at most, and prints nothing if there is no
broker.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from bowstring import errors

SECONDS: Final = "1s"
NAMES_MAX: Final = 200


def topics(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The topics whose names begin with this text."""
    return _asked(ctx, lambda client: (topic.name for topic in client.topics(f"{_literal(incomplete)}*")))


def readers(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The names under which readers keep their positions."""
    return _asked(ctx, lambda client: (each.name for each in client.positions() if each.name.startswith(incomplete)))


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
