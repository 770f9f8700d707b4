"""How a name that is half typed goes on: topics and readers of the broker that the command line would talk to.

A shell calls this at every Tab, so it takes a second at most, and says nothing where there is no broker.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from bowstring import errors

SECONDS: Final = "1s"
NAMES_MAX: Final = 200


def topics(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """The topics whose names begin so."""
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
    """A text that a glob takes as it is."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)
