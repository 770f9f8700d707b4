"""`bowstring config show|check|reference`: the settings of a broker, from the one table that also
makes flags and variables.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from bowstring import contexts, settings
from bowstring.cli import commands, config_file
from bowstring.cli.output import Output, Printer, note

HELP = """The settings of a broker: show where each comes from, check a file, print the reference.

Examples:

\b
  bowstring config show
  bowstring config show --changed
  bowstring config check ./bowstring.toml
"""
SHOW_HELP = """Shows the settings that `bowstring serve` would have here, and where each comes from.

Variables (BOWSTRING_…) beat the file, and that beats the default. The file is the first of
--config, BOWSTRING_CONFIG, ./bowstring.toml, ~/.config/bowstring/bowstring.toml and
/etc/bowstring/bowstring.toml. The last row is the server that commands go to.

Examples:

\b
  bowstring config show
  BOWSTRING_TOPIC_RETENTION=30d bowstring config show --changed
  bowstring config show -o json | jq 'select(.source != "default")'
"""
CHECK_HELP = """Checks a bowstring.toml: every key is known, and every value is of its kind.

Examples:

\b
  bowstring config check
  bowstring config check /etc/bowstring/bowstring.toml
"""
REFERENCE_HELP = """Prints the reference of all settings as Markdown; docs/reference/settings.md is this."""
REFERENCE_HEAD = """# Settings

A flag of `bowstring serve` beats the variable, that beats `bowstring.toml`, and that beats the
default. The file is the first of `--config`, `$BOWSTRING_CONFIG`, `./bowstring.toml`,
`~/.config/bowstring/bowstring.toml` and `/etc/bowstring/bowstring.toml`. An unknown setting is an
error. Sizes are `16MiB`, `500kB` or bytes; spans are `7d`, `12h`, `30s`, `500ms` or seconds. A key
such as `topic.retention` is `retention` in the table `[topic]`. `bowstring config show` shows each
value and where it comes from.

| `bowstring.toml` | flag | variable | default | meaning |
|---|---|---|---|---|
"""

Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="A bowstring.toml.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    group = commands.group("config", HELP)
    group.command("show", help=SHOW_HELP)(show)
    group.command("check", help=CHECK_HELP)(check)
    group.command("reference", help=REFERENCE_HELP)(reference)
    app.add_typer(group)


def show(
    config: Config = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only those that are not the default.")] = False,
    output: Output = None,
) -> None:
    printer = Printer(output)
    file = config_file.find(config, os.environ)
    layers = settings.from_environment(os.environ), config_file.layer(file)
    loaded = settings.load(*layers)
    rows: list[dict[str, Any]] = []
    for name in settings.TABLE:
        given = next((layer[name] for layer in layers if name in layer), None)
        value = settings.kind_of(name).show(getattr(loaded, name))
        if name == "data" and not value:
            value = settings.default_data(os.environ)
        rows.append({"setting": settings.key_of(name), "value": value, "source": given.shown if given else "default"})
    server = contexts.choose(None, None)
    rows.append({"setting": "server", "value": server.server, "source": server.source})
    shown = [row for row in rows if not changed or row["source"] != "default"]
    if printer.is_data:
        return printer.objects(shown)
    if shown:
        printer.table({"setting": "left", "value": "cut", "source": "wrap"}, [tuple(row.values()) for row in shown])
    return None


def check(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="A bowstring.toml.", show_default=False)] = None,
) -> None:
    found = Path(file) if file is not None and Path(file).is_file() else config_file.find(file, os.environ)
    if found is None:
        return note("There is no bowstring.toml here; the defaults apply.")
    settings.load(config_file.layer(found))
    return typer.echo(f"{found} is right.")


def reference() -> None:
    typer.echo(reference_text(), nl=False)


def reference_text() -> str:
    """The page, from the table."""
    rows = ""
    for name, entry in settings.TABLE.items():
        kind = settings.kind_of(name)
        default = f"`{shown}`" if (shown := kind.show(entry.default)) else ""
        key, flag, variable = settings.key_of(name), settings.flag_of(name), settings.variable_of(name)
        rows += f"| `{key}` | `{flag}` | `{variable}` | {default} | {kind.meaning} |\n"
    return REFERENCE_HEAD + rows
