"""Who may change a machine: the actor, and nobody else.

A machine's durable state is changed by the changes that were decided, and live those are decided by
the actor (`broker/log/actor.py`). Whoever else calls a mutating method, or writes to a field, has
found a second way in. The loader fills machines before there is an actor, and `inspect` works on
machines of its own that nobody else sees: both stand in the table.

Machines are recognised by the names that they go by, by annotations, and by what a name was taken
from: `found = actor.partition; found.apply(change)` is seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch

from tidy_source import Source

# The names of machines where they are fields or variables, and the classes that they are annotated with.
MACHINES = set("partition machine deletions retained positions producers ids batches unread pages ledger ledgers leases".split())
CLASSES = set(
    "Partition Machine Deletions Retained Positions Producers NaturalIds UnsealedBatches UnreadIds PageIndex Ledger Ledgers Leases".split()
)
# What changes them. `decide`, `delete`, `move` and `raise_floor` only make a change; it is `take` that applies it.
MUTATING = set(
    "apply take committed replay restore restore_ids restore_chunk cannot_restore_ids sealed moved alter "
    "add free forget_before drop_below load learn mark_changed".split()
)
# Only the actor puts changes on their way to the disk.
WRITERS = {"flusher", "_flusher"}

# Files, and what they may call or write beside reading; "*" is everything.
MAY_CHANGE: dict[str, set[str]] = {
    "core/*": {"*"},
    "broker/log/actor.py": {"*"},
    "broker/log/loader.py": {"*"},
    "inspection/*": {"*"},
    "broker/upkeep/sealer.py": {"mark_changed", "snapshot_sequence", "snapshot_end"},
    "broker/upkeep/capture.py": {"mark_changed", "snapshot_sequence", "snapshot_end"},
    "broker/upkeep/retention.py": {"bytes_behind"},
    "broker/upkeep/survey.py": {"bytes_behind"},
}


def only_the_actor_changes_machines(source: Source) -> Iterator[tuple[int, str]]:
    """Everybody else asks it: `actor.ask(request)`."""
    allowed = {name for pattern, names in MAY_CHANGE.items() if fnmatch(source.inside, pattern) for name in names}
    if not source.inside.startswith(("broker/", "gateway/", "inspection/", "core/")) or "*" in allowed:
        return
    known = MACHINES | _aliases(source)
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in allowed:
            receiver, method = node.func.value, node.func.attr
            if method in MUTATING and _is_machine(receiver, known):
                yield node.lineno, f"{ast.unparse(receiver)}.{method}() changes a machine; make it a request and ask the actor"
            elif method == "add" and _last(receiver) in WRITERS:
                yield node.lineno, "changes go to the flusher through the actor; make it a request and ask the actor"
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and target.attr not in allowed and _is_machine(target.value, known):
                yield target.lineno, f"{ast.unparse(target)} is a machine's; make it a request and ask the actor"


def _last(node: ast.AST) -> str:
    """The last name of a dotted one."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_machine(node: ast.AST, known: set[str]) -> bool:
    """`self.ids` and the like are a machine's only behind a machine: other things have ids, too."""
    if isinstance(node, ast.Attribute):
        return node.attr in {"partition", "machine"} or (node.attr in MACHINES and _is_machine(node.value, known))
    return isinstance(node, ast.Name) and node.id in known - (MACHINES - {"partition", "machine"})


def _aliases(source: Source) -> set[str]:
    """Names that stand for a machine, because of their annotation or because they were taken from one."""
    found = {"partition", "machine"}
    for node in source.nodes:
        if isinstance(node, ast.arg) and _last(node.annotation or node) in CLASSES:
            found.add(node.arg)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found |= {name.id for name, value in _pairs(target, node.value) if isinstance(name, ast.Name) and _is_machine(value, found)}
        if isinstance(node, ast.NamedExpr) and _is_machine(node.value, found):
            found.add(node.target.id)
    return found - (MACHINES - {"partition", "machine"})


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What is assigned to what."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def _targets(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target
