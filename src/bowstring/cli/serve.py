"""`bowstring serve`: runs a broker until a signal stops it.

Its flags come from the table of settings: every field of `Settings` is a flag of the same name. A
flag beats the environment, the environment beats the file, and the file beats the default. A wrong
setting is wrong usage, exit code 2.

When the broker serves, one line with address and data directory goes to stdout; the log goes to
stderr (`bowstring.logs`). SIGTERM, Ctrl-C and closing its terminal (SIGHUP) stop it after it has
answered the requests under way. A second signal ends it at once. Under `nohup` it ignores SIGHUP. A
failed sync or I/O error ends the process, because only a fresh one that reads the disk can tell
what is on it; everything acknowledged is there.
"""

from __future__ import annotations

import errno
import gc
import inspect
import logging
import os
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors, settings
from bowstring.cli import config_file, failures, options
from bowstring.cli.output import note
from bowstring.logs import handlers

if TYPE_CHECKING:
    import asyncio

    from bowstring.server import Server

HELP = """Runs a broker.

Examples:

\b
  bowstring serve --data ./data
  bowstring serve --listen 0.0.0.0:27769 --topic-retention 30d
  BOWSTRING_BATCH_BYTES_MAX=32MiB bowstring serve
  bowstring serve --store memory --listen 127.0.0.1:0 --http off
  bowstring serve --data ./data --check
  bowstring serve --config ./bowstring.toml

Every flag can also be given as a variable, or in bowstring.toml: --topic-retention is
BOWSTRING_TOPIC_RETENTION, and retention in [topic]. `bowstring config show` shows each value and
where it comes from. Sizes are 16MiB, 500kB or bytes; spans are 7d, 12h, 30s, 500ms or seconds.

The log goes to stderr: start and stop, topics created and deleted, a full disk, damage, clients
that were refused. --verbose logs more, --quiet only warnings; --log-format json writes one JSON
object a line.
"""


FILES_BESIDE = 100
"""The most files that a broker has open in addition to its connections, roughly: segments, catalog,
sockets.
"""


def add_to(app: typer.Typer) -> None:
    """Adds the command, with a flag for each setting."""
    app.command("serve", help=HELP)(_command())


def _command() -> Any:
    def serve(config: str | None, check: bool, **flags: str | None) -> None:
        chosen = _settings(flags, config)
        if check:
            return _check(chosen)
        handlers.install(_level(), chosen.log_format)
        failures.as_json.asked |= chosen.log_format == "json"
        _prepare_process(chosen)
        _run(_serve(chosen))

    parameters = {name: _flag(name) for name in settings.TABLE} | {
        "config": Annotated[str | None, typer.Option("--config", metavar="FILE", help="A bowstring.toml.", show_default=False)],
        "check": Annotated[
            bool, typer.Option("--check", help="Only check whether a broker would start: settings, address, data directory.")
        ],
    }
    # typer reads flags from a function's signature, so we set the signature from the table.
    serve.__annotations__ = parameters
    keyword = inspect.Parameter.KEYWORD_ONLY
    defaults = dict.fromkeys(parameters, None) | {"check": False}
    signature = [inspect.Parameter(name, keyword, default=defaults[name], annotation=parameters[name]) for name in parameters]
    serve.__signature__ = inspect.Signature(signature)  # pyright: ignore[reportFunctionMemberAccess]
    return serve


def _level() -> int:
    return logging.DEBUG if options.given.verbose else logging.WARNING if options.given.quiet else logging.INFO


def _flag(name: str) -> Any:
    kind = settings.kind_of(name)
    default = kind.show(settings.TABLE[name].default)
    text = kind.meaning + (f" [default: {default}]" if default else "")
    return Annotated[str | None, typer.Option(settings.flag_of(name), help=text, show_default=False, metavar="VALUE")]


def _settings(flags: dict[str, str | None], config: str | None) -> settings.Settings:
    try:
        file = config_file.find(config, os.environ)
        chosen = settings.load(settings.from_flags(flags), settings.from_environment(os.environ), config_file.layer(file))
        if chosen.store == "memory":
            return chosen
        return replace(chosen, data=os.path.abspath(chosen.data or settings.default_data(os.environ)))
    except errors.InvalidArgument as error:
        raise _usage(error) from None


def _check(chosen: settings.Settings) -> None:
    """Says that all is right, or raises what `serve` would raise. Changes nothing."""
    from bowstring import preflight

    try:
        served = preflight.check(chosen)
    except errors.InvalidArgument as error:
        raise _usage(error) from None
    if served is not None:
        note(f"{served[:1].upper()}{served[1:]} Its contents were not checked.")
    typer.echo("The settings are right.")


def _usage(error: errors.Error) -> typer.Exit:
    """Wrong usage: one sentence on stderr, and exit code 2."""
    typer.echo(f"bowstring serve: {error}", err=True)
    return typer.Exit(2)


def _prepare_process(chosen: settings.Settings) -> None:
    """Sets up memory and the limit of open files for a broker."""
    from bowstring.host.clock import SystemClock
    from bowstring.host.memory import keep_freed_memory
    from bowstring.host.open_files import allow_open_files
    from bowstring.logs.event_log import EventLog

    keep_freed_memory()
    allowed = allow_open_files()
    if allowed < chosen.connections_max + FILES_BESIDE:
        EventLog(SystemClock()).note("few-open-files", files=allowed, streams=chosen.connections_max)


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    from bowstring.wire import loops

    loop = loops.new_event_loop()
    try:
        loop.run_until_complete(coroutine)
    finally:
        loop.close()


async def _serve(chosen: settings.Settings) -> None:
    import asyncio

    from bowstring.server import open_broker

    stopped: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop_on_signals(stopped)
    gc.disable()  # loaded modules stay: scanning them again and again for garbage takes as long as loading them
    try:
        server = await open_broker(chosen)
    except errors.InvalidArgument as error:
        raise _usage(error) from None
    finally:
        gc.enable()
    gc.freeze()
    reason = "an error"
    try:
        place = "memory" if chosen.store == "memory" else chosen.data
        _say(f"bowstring serves {server.address} from {place}")
        if server.http_address is not None:
            _say(f"metrics and health are on {server.http_address}")
        await asyncio.wait((stopped, server.failed), return_when=asyncio.FIRST_COMPLETED)
        reason = "its disk failed" if server.failed.done() else stopped.result()
    finally:
        await server.stop(reason=reason)
    if server.failed.done():
        raise _ended(server)


def _say(line: str) -> None:
    """A terminal that has just closed accepts no more lines. That is not a failure: its SIGHUP
    follows.
    """
    try:
        typer.echo(line)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def stop_on_signals(stopped: asyncio.Future[str]) -> None:
    """Settles with the name of the first signal that asks the broker to stop. The second signal of
    a kind has the system's default action, and ends the process at once. A closing terminal also
    stops the broker, unless the process ignores SIGHUP (`nohup`).
    """
    import asyncio

    terminals = [descriptor for descriptor in range(3) if os.isatty(descriptor)]

    def stop(number: int) -> None:
        _leave(terminals)
        if not stopped.done():
            stopped.set_result(signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)


def _leave(terminals: list[int]) -> None:
    """Sends further output nowhere, because writing to a closed terminal would be an error."""
    for descriptor in terminals:
        if not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _ended(server: Server) -> errors.Error:
    cause = server.failed.result()
    return errors.Unavailable(
        f"the broker has ended because its disk failed: {cause}.",
        hint=f"Look after the disk of {server.settings.data}, then start again; what was acknowledged is there.",
    )
