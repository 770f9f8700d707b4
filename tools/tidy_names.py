"""Two rules over several files: a class name is used once in the tree, and a module of the broker imports few others."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

from tidy_source import Source, Violation

# Names that two classes share, with the reason. A sync face has the name of what is behind it, because users see only one of the two.
SHARED_NAMES: dict[str, str] = {
    "BatchReceipt": "the sync face of the kit's",
    "Client": "the sync face of the kit's",
    "Consumer": "the sync face of the kit's",
    "ExtendReceipt": "the sync face of the kit's",
    "LeaseBatchReceipt": "the sync face of the kit's",
    "LeaseReceipt": "the sync face of the kit's",
    "Producer": "the sync face of the kit's",
    "Reader": "the sync face of the kit's",
    "Receipt": "the sync face of the kit's",
    "Broker": "the embedded broker is the public face of the broker",
    "Topic": "the kit's describes to users what the broker's is",
    "Lease": "the kit's describes to users what the ledger's is",
    "Position": "the kit's describes to users what the change moves",
    "Stored": "the kit's outcome of a batch is the broker's answer to it",
}
IMPORTS_MAX = 12


def check_names(sources: Iterable[Source]) -> list[Violation]:
    """Classes of one name in two files, but for those in the table."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for source in sources:
        if source.inside:
            for node in source.nodes:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append((source.path, node.lineno))
    return [
        Violation(path, line, "names-are-unique", f"class {name} is in {others[0][0]} too; call one of them something else")
        for name, others in sorted(found.items())
        if len(others) > 1 and name not in SHARED_NAMES
        for path, line in others[1:]
    ]


def check_imports(sources: Iterable[Source]) -> list[Violation]:
    """Our own modules that a module of the broker imports, also for types only: a module that needs more knows too much."""
    violations: list[Violation] = []
    for source in sources:
        if source.package == "broker":
            count = len({entry.line for entry in source.imports if entry.full.split(".")[0] == "bowstring"})
            if count > IMPORTS_MAX:
                text = f"{count} imports of our own modules; at most {IMPORTS_MAX}"
                violations.append(Violation(source.path, 1, "imports-are-few", text))
    return violations
