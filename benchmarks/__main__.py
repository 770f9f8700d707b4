"""`python -m benchmarks` measures everything; `python -m benchmarks profile WORK` shows where one workload spends its time."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

from benchmarks import bars, machine, profiling, report
from benchmarks.peers import node
from benchmarks.rounds import FULL, GROUPS, NAMES, QUICK, Plan, Rounds
from benchmarks.turns import say
from benchmarks.years import soak

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
INTERRUPTED = 130


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with _folder(options.folder) as folder:
            if options.command == "profile":
                profiling.run(folder, options)
            elif options.command == "soak":
                return 0 if soak.run(folder, options) else 1
            else:
                _measure(folder, options)
    except KeyboardInterrupt:
        say("interrupted; everything is cleaned up")
        return INTERRUPTED
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> None:
    plan = _plan(options)
    facts = machine.facts(folder)
    results = Rounds(plan, folder).run()
    rows = bars.rows(results)
    report.print_table(rows, results)
    output = options.output or (None if options.quick or options.only else RESULTS)
    if output is None:
        say("a quick or partial run is not kept; --output FOLDER keeps it")
    else:
        for path in report.write(Path(output), rows, results, plan, {**facts, "kafka": results.kafka}):
            say(f"wrote {path}")


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    if options.only:
        plan = dataclasses.replace(plan, only=tuple(one for name in options.only for one in GROUPS.get(name, (name,))))
    if options.rounds:
        plan = dataclasses.replace(plan, rounds=options.rounds)
    return dataclasses.replace(plan, peers=not options.no_peers)


@contextlib.contextmanager
def _folder(parent: Path) -> Generator[Path]:
    """A folder for all that is written, which is gone at the end, whatever the end is."""
    parent.mkdir(parents=True, exist_ok=True)
    if machine.in_memory(parent):
        raise SystemExit(f"{parent} is in memory, where a sync costs nothing. Name a folder on a disk: --folder FOLDER")
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, one round: to see that it runs, not for figures")
    names = (*GROUPS, *NAMES)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"only this, may be repeated: {', '.join(names)}")
    parser.add_argument("--no-peers", action="store_true", help=f"without Kafka and the others (looked for in {node.installed_folder()})")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="where data directories are made; on a real disk")
    parser.add_argument("--output", type=Path, help="where the results are written; for full runs benchmarks/results")
    parser.set_defaults(command="measure")
    commands = parser.add_subparsers(dest="command", required=False)
    soak.add_arguments(commands.add_parser("soak", help="a mixed load for a long time, and whether everything stays flat"))
    profiling.add_arguments(commands.add_parser("profile", help="where the time of one workload goes"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
