"""What a command says of messages that were refused: one line for each, not only for the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from bowstring import errors
from bowstring.cli import failures, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bowstring.client.receipts import Answers

TOLD_MOST: Final = 20
"""The command names so many messages one by one."""


def raise_refused(answers: Answers, ids: Sequence[str]) -> None:
    """Raises if messages were refused. `ids` are those that the user has named: of a single one the
    error itself is raised.
    """
    if not answers.refused:
        return
    if len(ids) == 1:
        raise answers.refused[0]
    refused = list(answers.refused.items())
    if not failures.as_json.asked:
        for _, error in refused[:TOLD_MOST]:
            typer.echo(options.fitted(failures.as_flags(str(error))), err=True)
    hint = "" if len(refused) <= TOLD_MOST else f"These are the first {TOLD_MOST} of them."
    named = {ids[row]: failures.as_flags(str(error)) for row, error in refused} if ids else {}
    partly = errors.PartlyRefused(f"{len(refused):,} of {len(answers):,} messages were refused.", hint=hint, details=named)
    partly.answers = answers
    raise partly from refused[0][1]
