"""House rules as a test: `make tidy`, and inside `make test`.

How code reads cannot be judged by a program, but much of what keeps it readable can be held: who imports whom, that the core is pure,
that the outside world comes in through ports only, that files and functions stay small, that names say something. Each rule is a
small function that yields (line, what is wrong and what would be right). Where Python is meant, rules look at the syntax tree and
follow names through imports: `from datetime import datetime as d; d.now()` is seen.

The tables come first, because they are what one changes. `tools/tidy_ratchet.toml` lists what is larger than it should be today: it
may shrink, and then the list is shortened, but never grow.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from tidy_machines import only_the_actor_changes_machines
from tidy_names import check_imports, check_names
from tidy_sizes import RATCHET, check_sizes
from tidy_source import Source, Violation

ROOT = Path(__file__).resolve().parent.parent
GENERATED = "src/bowstring/wire/generated/"
# Folders that are left alone: these everywhere, these at the top, and those that begin with a dot, but .ci.
NOT_OURS = {"__pycache__", "node_modules"}
NOT_OURS_AT_THE_TOP = {"build", "dist", "data"}

# Who may import whom inside src/bowstring. A package may always import itself. "bowstring" is the
# public face, __init__.py, which loads the rest only when it is used.
VALUES = {"messages", "errors"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "times": {"errors"},
    "messages": {"errors", "times"},
    "listening": {"errors"},
    "settings": {"errors", "listening", "times"},
    "version": set(),
    "contexts": {"errors"},
    "ports": VALUES,
    "core": VALUES,
    "logs": {"ports", "times"},
    "host": {"ports", "errors"},
    "frames": VALUES | {"ports", "core"},
    "store": VALUES | {"frames", "ports", "core"},
    "catalog": VALUES | {"frames", "ports", "core"},
    "broker": VALUES | {"store", "catalog", "frames", "ports", "core", "settings", "times"},
    "inspection": VALUES | {"broker", "store", "catalog", "frames", "ports", "core", "host", "times"},
    "backup": VALUES | {"inspection", "store", "catalog", "frames", "ports", "core", "times"},
    "wire": VALUES | {"ports", "listening"},
    "gateway": VALUES | {"wire", "broker", "ports", "core", "settings", "times"},
    "client": VALUES | {"wire", "ports", "times", "settings", "host", "contexts", "version"},
    "cli": VALUES | {"bowstring", "client", "contexts", "settings", "times", "version"},
    "http": VALUES | {"broker", "listening", "settings", "version", "wire"},
    "assembly": {"broker", "gateway", "ports", "settings", "store"},
    "server": VALUES
    | {"assembly", "backup", "broker", "http", "catalog", "wire", "ports", "host", "listening", "logs"}
    | {"settings", "times", "version"},
    "preflight": {"errors", "catalog", "host", "http", "server", "settings", "store", "wire"},
    "manual_clock": {"errors", "times", "host", "embedded"},
    "embedded": VALUES | {"listening", "manual_clock", "server", "broker", "wire", "client", "ports", "host", "settings", "times"},
    "aio": VALUES | {"client", "embedded", "times"},
    "testing": {"client", "embedded", "manual_clock"},
    "spark": VALUES | {"client", "contexts", "times"},
    "__main__": {"cli"},
    "bowstring": VALUES | {"aio", "spark", "client", "embedded", "settings", "times", "version"},
}
# Single files that reach further than their package: commands that are a broker, or look into one's directory.
MAY_IMPORT_TOO: dict[str, set[str]] = {
    "cli/serve.py": {"broker", "gateway", "store", "catalog", "wire", "ports", "host", "embedded", "logs", "preflight", "server"},
    "cli/dev.py": {"logs", "wire", "server"},
    "cli/bench.py": {"wire"},
    "cli/inspect.py": {"inspection", "ports"},
    "cli/backup.py": {"backup", "host"},
}

# The core only computes. So do these libraries; nothing else from outside the standard library comes in.
CORE_LIBRARIES = {"numpy", "pyroaring", "msgspec", "xxhash", "bowstring"}
CORE_NEVER = {"asyncio", "logging", "os", "pathlib"}

# Modules that are the outside world: clock, randomness, network, processes, threads, files. Only adapters touch them.
OUTSIDE = set(
    "time random uuid secrets socket ssl select selectors signal threading _thread multiprocessing concurrent subprocess tempfile shutil "
    "glob fcntl mmap http urllib sqlite3 apsw grpc grpc_health grpc_reflection uuid_utils uvloop psutil "
    "pyarrow.fs pyarrow.dataset pyarrow.parquet pyarrow.feather pyarrow.csv pyarrow.flight numpy.random".split()
)
# The adapters, and which of these modules each may touch; "*" is all of them, and files, threads and the clock as well.
ADAPTERS: dict[str, set[str]] = {
    "host/*": {"*"},
    "cli/*": {"*"},
    "wire/grpc*.py": {"*"},
    "wire/sockets.py": {"*"},
    "wire/native_c*.py": {"*"},  # these live on the loop's time; native_frames.py does without
    "wire/native_server.py": {"*"},
    "wire/front_door.py": {"*"},
    "wire/loops.py": {"*"},
    "wire/forks.py": {"*"},
    "contexts.py": {"*"},
    "catalog/sqlite*.py": {"apsw"},
    "catalog/sqlite/file.py": {"*"},
    "catalog/sqlite/queries.py": {"*"},  # reads the SQL that lies beside it
    "inspection/directory.py": {"*"},
    "inspection/repair.py": {"*"},
    "backup/*": {"*"},
    "http/*": {"*"},
    "embedded.py": {"*"},
    "preflight.py": {"*"},
    "client/sync*.py": {"threading", "concurrent"},
    "spark/*": {"*"},
}
# Names that ask the clock, sleep, start threads, open files or sockets: each with what would be right.
OUTSIDE_NAMES: dict[str, str] = {
    "asyncio.sleep": "wait with the clock port",
    "asyncio.to_thread": "use the worker port",
    "asyncio.open_connection": "use the transport port",
    "asyncio.start_server": "use the transport port",
    "asyncio.create_subprocess_exec": "processes are for host/",
    "asyncio.create_subprocess_shell": "processes are for host/",
    "datetime.datetime.now": "ask the clock port",
    "datetime.datetime.utcnow": "ask the clock port",
    "datetime.datetime.today": "ask the clock port",
    "datetime.date.today": "ask the clock port",
    "io.open": "use the disk port",
    "numpy.memmap": "use the disk port",
    "numpy.random": "use the randomness port",
    "pathlib.Path.cwd": "take it as an argument",
    "pathlib.Path.home": "take it as an argument",
    "pyarrow.OSFile": "use the disk port",
    "pyarrow.memory_map": "use the disk port",
}
LOOPS = {"loop", "self.loop", "self._loop", "asyncio.get_event_loop()", "asyncio.get_running_loop()"}
# Of `os` these only compute, or are the environment that settings are read from; all else is files, processes and randomness.
OS_COMPUTES = set("PathLike fspath fsencode fsdecode sep environ strerror".split())
OS_PATH_COMPUTES = set("join basename dirname normpath split splitext isabs commonpath".split())
# What a Path does on the disk. Of the second line other things, the disk port above all, have methods too: there only paths count.
PATH_ONLY = set("read_text write_text read_bytes write_bytes mkdir rmdir is_file is_dir iterdir rglob expanduser symlink_to".split())
PATH_TOO = set("open unlink touch rename replace exists stat lstat glob walk resolve absolute hardlink_to readlink chmod".split())

LINE_CHARACTERS_MAX = 140
LINES_UNLIMITED = {".lock", ".json", ".csv", ".sum", ".svg", ".ipynb"}
EMPTY_NAMES = set("util utils helper helpers manager managers common base misc".split())

MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/")
PACKAGE_INDEX = re.compile(
    r"(?<![\w-])(?:--)?(?:PIP_|UV_)?(?:extra[-_])?index[-_]url"
    r"|https?://\S+(?:\.(?:whl|tar\.gz|tgz|jar|crate)\b|/simple/)"
    r"|[\"']?\b(?:resolved|registry)\b[\"']?\s*[:=]\s*[\"']?https?:",
    re.IGNORECASE,
)

Found = Iterator[tuple[int, str]]
Rule = Callable[[Source], Found]


# ---- who imports whom, and who touches the world ---------------------------------------------------------------------


def imports_between_packages(source: Source) -> Found:
    """Imports inside src/bowstring follow the table MAY_IMPORT, also those for types only and those inside functions."""
    if not source.inside:
        return
    if source.package not in MAY_IMPORT:
        yield 1, f"'{source.package}' has no row in MAY_IMPORT; give it one in tools/tidy.py"
        return
    allowed = MAY_IMPORT[source.package] | MAY_IMPORT_TOO.get(source.inside, set()) | {source.package}
    for entry in source.imports:
        top, *rest = entry.full.split(".")
        if top != "bowstring":
            continue
        target = rest[0] if rest and rest[0] in MAY_IMPORT else "bowstring"
        if target not in allowed:
            yield entry.line, f"{source.package} may not import {entry.full}; it may import {', '.join(sorted(allowed - {source.package}))}"


def core_is_pure(source: Source) -> Found:
    """The core takes time, randomness and bytes as arguments and gives effects back: no I/O, no clock, no log, no loop."""
    if source.package != "core":
        return
    for entry in source.imports:
        top = entry.full.split(".")[0]
        if top in CORE_NEVER:
            yield entry.line, f"core may not import {top}; take what you need as an argument, give back an effect"
        elif top not in sys.stdlib_module_names and top not in CORE_LIBRARIES:
            yield entry.line, f"core may not import {top}; of libraries it has {', '.join(sorted(CORE_LIBRARIES - {'bowstring'}))}"


def adapter(source: Source, module: str) -> bool:
    """Whether this file may touch that part of the outside world."""
    return any(fnmatch(source.inside, pattern) and allowed & {module, "*"} for pattern, allowed in ADAPTERS.items())


def outside_modules(source: Source) -> Found:
    """Only adapters import modules that reach the outside world; everything else is given a port."""
    for entry in source.imports if source.inside else ():
        for module in OUTSIDE:
            if (entry.full + ".").startswith(module + ".") and not adapter(source, module):
                yield entry.line, f"{module} is the outside world; take a port as an argument (adapters: {', '.join(ADAPTERS)})"


def outside_names(source: Source) -> Found:
    """Nor does anybody else ask the clock, sleep, start threads or call the operating system by other ways."""
    if not source.inside or adapter(source, "*"):
        return
    for node in source.nodes:
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        name = source.full_name(node)
        if name in OUTSIDE_NAMES:
            yield node.lineno, f"{name} is the outside world; {OUTSIDE_NAMES[name]}"
        elif isinstance(node, ast.Attribute) and node.attr == "run_in_executor":
            yield node.lineno, "run_in_executor is the outside world; use the worker port"
        elif isinstance(node, ast.Attribute) and node.attr == "time" and ast.unparse(node.value) in LOOPS:
            yield node.lineno, "the loop's time is the outside world; ask the clock port"
        else:
            yield from ((node.lineno, text) for text in _os_call(name))


def _os_call(name: str) -> Iterator[str]:
    match name.split("."):
        case ["os", "path", function, *_] if function not in OS_PATH_COMPUTES:
            yield f"os.path.{function} is the outside world; use the disk port"
        case ["os", function, *_] if function != "path" and function not in OS_COMPUTES:
            yield f"os.{function} is the outside world; use a port"
        case _:
            pass


def outside_files(source: Source) -> Found:
    """Files are opened by the disk port; a Path is only a name. Files packaged with us may be read by importlib.resources."""
    if not source.inside or adapter(source, "*"):
        return
    for call, name in source.calls():
        if name == "open" and "open" not in source.defined:
            yield call.lineno, "open() is the outside world; use the disk port"
        elif isinstance(call.func, ast.Attribute):
            method, kind = call.func.attr, source.kind(call.func.value)
            if (kind == "path" and method in PATH_TOO | PATH_ONLY) or (not kind and method in PATH_ONLY):
                yield call.lineno, f".{method}() of a path is the outside world; use the disk port"


# ---- how the code reads ----------------------------------------------------------------------------------------------


def names_say_something(source: Source) -> Found:
    """A module is called after the noun in it, not after the lack of one."""
    if empty := {word for part in Path(source.path).with_suffix("").parts for word in part.split("_")} & EMPTY_NAMES:
        yield 1, f"'{empty.pop()}' says nothing; name the module after the noun that its users say"


def no_print(source: Source) -> Found:
    """Only commands print; the library raises, answers or logs."""
    for call, name in source.calls() if source.inside and source.package != "cli" else ():
        if name == "print":
            yield call.lineno, "print() belongs in cli/; raise, answer or log instead"


def no_leftovers(source: Source) -> Found:
    """What is left to do stands in an issue, not in the source."""
    for number, line in enumerate(source.lines if source.inside else (), 1):
        if mark := re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield number, f"{mark[1]} in the source; do it, or write an issue"


def no_swallowed_errors(source: Source) -> Found:
    """An error that is caught is answered, translated or told; catching everything and going on hides bugs."""
    everything = {"Exception", "BaseException"}
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            silent = all(isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)) for s in node.body)
            caught = {source.full_name(n) for n in (node.type.elts if isinstance(node.type, ast.Tuple) else [node.type])}
            if node.type is None:
                yield node.lineno, "bare except; name the errors that are expected here"
            elif silent and caught & everything:
                yield node.lineno, "every error is swallowed; name the expected ones, or handle them"
    for call, name in source.calls():
        if name == "contextlib.suppress" and everything & {source.full_name(argument) for argument in call.args}:
            yield call.lineno, "every error is swallowed; name the expected ones"


def tests_never_sleep(source: Source) -> Found:
    """A test that sleeps is slow when it passes and wrong when the machine is busy; wait for what should happen."""
    for node in source.nodes if source.path.startswith("tests/") else ():
        if isinstance(node, ast.Name | ast.Attribute) and source.full_name(node) == "time.sleep":
            yield node.lineno, "time.sleep in a test; use the virtual clock, or wait for the event itself"


def tests_skip_with_reason(source: Source) -> Found:
    """A skipped or failing test says why, in words."""
    if not source.path.startswith("tests/"):
        return
    said: set[ast.AST] = set()
    for call, name in source.calls():
        reasons: list[ast.expr] = [k.value for k in call.keywords if k.arg == "reason"]
        if name in {"pytest.skip", "pytest.xfail", "pytest.mark.skip"}:
            reasons += call.args[:1]
        if any(not isinstance(r, ast.Constant) or (isinstance(r.value, str) and r.value.strip()) for r in reasons):
            said.add(call.func)
    for node in source.nodes:
        name = source.full_name(node)
        if re.fullmatch(r"pytest\.(mark\.)?(skip|skipif|xfail|importorskip)", name) and node not in said:
            yield getattr(node, "lineno", 1), f"{name} without a reason; say why with reason='…'"


# ---- text of any language --------------------------------------------------------------------------------------------


def lines_fit(source: Source) -> Found:
    """No line is longer than a screen is wide; rows of Markdown tables cannot be broken, and locks and data are nobody's reading."""
    if Path(source.path).suffix in LINES_UNLIMITED or source.path.startswith(GENERATED):
        return
    for number, line in enumerate(source.lines, 1):
        if len(line) > LINE_CHARACTERS_MAX and not (source.path.endswith(".md") and line.lstrip().startswith("|")):
            yield number, f"{len(line)} characters; at most {LINE_CHARACTERS_MAX}"


def no_machine_in_the_text(source: Source) -> Found:
    """The tree works in every clone: it names no path of one machine, and no address that packages come from."""
    lock = source.path.endswith(".lock")
    for number, line in enumerate(source.lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "an absolute path of one machine; make it relative to the root"
        if PACKAGE_INDEX.search(line) or (lock and "://" in line):
            yield number, "an address that packages come from; leave that to the machine that fetches them"


# ---- the run ---------------------------------------------------------------------------------------------------------

PYTHON_RULES: tuple[Rule, ...] = (
    imports_between_packages,
    core_is_pure,
    outside_modules,
    outside_names,
    outside_files,
    only_the_actor_changes_machines,
    names_say_something,
    no_print,
    no_leftovers,
    no_swallowed_errors,
    tests_never_sleep,
    tests_skip_with_reason,
)
TEXT_RULES: tuple[Rule, ...] = (lines_fit, no_machine_in_the_text)


def is_ours(source: Source) -> bool:
    """Python that people wrote here."""
    return source.path.endswith(".py") and not source.path.startswith(GENERATED)


def check(source: Source) -> list[Violation]:
    """Everything that one file breaks, in the order of its lines."""
    rules = TEXT_RULES
    if is_ours(source):
        try:
            _ = source.tree
        except SyntaxError as error:
            return [Violation(source.path, error.lineno or 1, "syntax", f"not Python: {error.msg}")]
        rules = TEXT_RULES + PYTHON_RULES
    found = {(line, rule.__name__.replace("_", "-"), text) for rule in rules for line, text in rule(source)}
    return [Violation(source.path, *entry) for entry in sorted(found)]


def tree(root: Path) -> Iterator[Source]:
    """Every text file below the root, but what tools leave behind."""
    for folder, folders, files in os.walk(root):
        left_alone = NOT_OURS | (NOT_OURS_AT_THE_TOP if Path(folder) == root else set())
        folders[:] = sorted(name for name in folders if name not in left_alone and (name == ".ci" or not name.startswith(".")))
        for path in (Path(folder, name) for name in sorted(files) if name != ".git"):  # a worktree's says where its repository is
            try:
                yield Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
            except UnicodeDecodeError:
                continue


def check_tree(root: Path = ROOT) -> list[Violation]:
    """All rules over all files, and the sizes of all against the ratchet."""
    sources = list(tree(root))
    violations = [violation for source in sources for violation in check(source)]
    broken = {violation.path for violation in violations if violation.rule == "syntax"}
    whole = [source for source in sources if is_ours(source) and source.path not in broken]
    violations += check_names(whole) + check_imports(whole)
    return violations + check_sizes(whole, (root / RATCHET).read_text(encoding="utf-8"))


def main() -> int:
    """Prints what is wrong, one line each; 1 if anything is."""
    violations = check_tree()
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
