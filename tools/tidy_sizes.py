"""Sizes with a ratchet: files and functions that a person can hold in mind.

`tools/tidy_ratchet.toml` lists files and functions above the limits with their lines. They may not
grow. When one shrinks, lower its number, so that the gain is kept; when it is small enough or gone,
remove the entry.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping

from tidy_source import Source, Violation

RATCHET = "tools/tidy_ratchet.toml"
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60


def check_sizes(sources: Iterable[Source], ratchet: str) -> list[Violation]:
    """All files and functions against the limits, or against their entry in the text of the
    ratchet.
    """
    files: dict[str, int] = {}
    functions: dict[str, int] = {}
    for source in sources:
        files[source.path] = len(source.lines)
        functions |= function_lines(source)
    listed = tomllib.loads(ratchet)
    return [*too_large(files, listed["files"], FILE_LINES_MAX), *too_large(functions, listed["functions"], FUNCTION_LINES_MAX)]


def function_lines(source: Source) -> dict[str, int]:
    """The lines of each function as {"path:Class.function": lines}, without its decorators."""
    lines: dict[str, int] = {}

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                lines[f"{source.path}:{'.'.join((*names, child.name))}"] = (child.end_lineno or child.lineno) - child.lineno + 1
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            visit(child, (*names, child.name) if named else names)

    visit(source.tree, ())
    return lines


def too_large(found: Mapping[str, int], listed: Mapping[str, int], limit: int) -> Iterator[Violation]:
    """What exceeds the limit must stand in the ratchet with its size: not more, not less, and
    nothing that is gone.
    """
    for name, lines in found.items():
        path = name.split(":")[0]
        if name not in listed and lines > limit:
            yield Violation(path, 1, "size", f"{name} has {lines} lines; at most {limit}. Which noun is hiding in it?")
        elif name in listed and lines > max(listed[name], limit):
            yield Violation(path, 1, "size", f"{name} grew from {listed[name]} to {lines} lines; what is in the ratchet only shrinks")
        elif name in listed and lines <= limit:
            yield Violation(RATCHET, 1, "size", f"{name} now has {lines} lines; take it out of the ratchet")
        elif name in listed and lines < listed[name]:
            yield Violation(RATCHET, 1, "size", f"{name} shrank from {listed[name]} to {lines} lines; lower the ratchet")
    yield from (Violation(RATCHET, 1, "size", f"{name} is gone; take it out of the ratchet") for name in listed.keys() - found.keys())
