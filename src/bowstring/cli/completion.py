"""`bowstring completion SHELL`: prints the script that makes a shell complete commands and flags."""

from __future__ import annotations

from typing import Annotated

import typer

from bowstring.cli.commands import no_such

HELP = """Prints a script that completes commands and flags in your shell: bash, zsh or fish.

Examples:

\b
  eval "$(bowstring completion bash)"           in ~/.bashrc
  bowstring completion zsh > "${fpath[1]}/_bowstring"
  bowstring completion fish > ~/.config/fish/completions/bowstring.fish
"""
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_BOWSTRING_COMPLETE"


def add_to(app: typer.Typer) -> None:
    app.command("completion", help=HELP)(completion)


def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise no_such("shell", shell, SHELLS)
    typer.echo(get_completion_script(prog_name="bowstring", complete_var=VARIABLE, shell=shell))
