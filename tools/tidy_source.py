"""A file of the tree as the house rules see it: its path, its text, and for Python its syntax tree
with names followed to their origin.

Rules ask three questions that the bare syntax tree does not answer. What does this name stand for
(`full_name`), where do this file's imports lead (`imports`), and is this expression a path on the
disk (`kind`)? The last is a guess from annotations and assignments, without scopes: enough to tell
`path.unlink()` from the disk port's `disk.unlink(name)`, which is what it is for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

PACKAGE = "src/bowstring/"

# What makes a path on the disk, and what makes a file of our own package, read through
# importlib.resources.
KINDS = {
    "pathlib.Path": "path",
    "pathlib.Path.cwd": "path",
    "pathlib.Path.home": "path",
    "importlib.resources.files": "packaged",
    "importlib.resources.abc.Traversable": "packaged",
    "importlib.abc.Traversable": "packaged",
}
PASSES_ON = {"sorted", "list", "tuple", "reversed"}

Kind = Callable[[ast.AST | None], str]


class Violation(NamedTuple):
    """One broken rule, in the form that editors jump to."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class Import(NamedTuple):
    """`import a.b` is ("a.b", local "a", stands for "a"); `from a import b as c` is ("a.b", local
    "c", stands for "a.b").
    """

    line: int
    full: str
    local: str
    stands_for: str


@dataclass(frozen=True)
class Source:
    """One text file, by its path from the root."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def inside(self) -> str:
        """The path from src/bowstring on; nothing for a file that is not in the package."""
        return self.path.removeprefix(PACKAGE) if self.path.startswith(PACKAGE) else ""

    @property
    def package(self) -> str:
        """The first part of that: the package, or module, that has a row in the table of imports."""
        first = self.inside.split("/")[0].removesuffix(".py")
        return "bowstring" if first == "__init__" else first

    @cached_property
    def imports(self) -> list[Import]:
        """All imports, wherever they stand, those by `import_module` with a plain name too."""
        result: list[Import] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for a in node.names:
                    top = a.name.split(".")[0]
                    result.append(Import(node.lineno, a.name, a.asname or top, a.name if a.asname else top))
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(node)
                result += [Import(node.lineno, f"{origin}.{a.name}", a.asname or a.name, f"{origin}.{a.name}") for a in node.names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"importlib.import_module", "import_module", "__import__"}:
                plain = [a.value for a in node.args if isinstance(a, ast.Constant)]
                result += [Import(node.lineno, name, "", "") for name in plain if isinstance(name, str)]
        return result

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        here = self.path.removeprefix("src/").removesuffix(".py").split("/")[: -node.level]
        return ".".join([*here, node.module] if node.module else here)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The full names of imported names: {"dt": "datetime.datetime"}."""
        return {entry.local: entry.stands_for for entry in self.imports if entry.local}

    @cached_property
    def defined(self) -> set[str]:
        """The names of the functions and classes that this module itself defines at its top."""
        return {node.name for node in self.tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}

    def full_name(self, node: ast.AST | None) -> str:
        """`dt.now` as "datetime.datetime.now"; empty for anything but a dotted name."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, node.id)
        if isinstance(node, ast.Attribute) and (before := self.full_name(node.value)):
            return f"{before}.{node.attr}"
        return ""

    def calls(self) -> list[tuple[ast.Call, str]]:
        """Every call with the full name of its function; empty if that is not a dotted name."""
        return [(node, self.full_name(node.func)) for node in self.nodes if isinstance(node, ast.Call)]

    def kind(self, node: ast.AST | None) -> str:
        """What an expression is: "path" on the disk, "packaged" file, or nothing known."""
        if isinstance(node, ast.Name | ast.Attribute) and (known := self._kinds.get(ast.unparse(node))):
            return known
        return self._made(node, self.kind)

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """The kinds of names and of `self.something`, from annotations, then twice through
        assignments and loops.
        """
        kinds: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
                target = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
                for part in ast.walk(node.annotation):
                    if kind := KINDS.get(self.full_name(part)):
                        kinds[target] = kind

        def known(node: ast.AST | None) -> str:
            text = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
            return kinds.get(text) or self._made(node, known)

        for node in [*self.nodes, *self.nodes]:
            if isinstance(node, ast.Assign) and (kind := known(node.value)):
                kinds |= {ast.unparse(target): kind for target in node.targets}
            elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and (kind := known(node.iter)):
                kinds[ast.unparse(node.target)] = kind
            elif isinstance(node, ast.NamedExpr) and (kind := known(node.value)):
                kinds[node.target.id] = kind
        return kinds

    def _made(self, node: ast.AST | None, kind: Kind) -> str:
        """The kind of an expression from that of its parts: a constructor, a method of a path, `a /
        b`, `sorted(…)`.
        """
        match node:
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in PASSES_ON:
                return kind(first)
            case ast.Call(func=func) if kind_made := KINDS.get(self.full_name(func)):
                return kind_made
            case ast.Call(func=ast.Attribute(value=value)) | ast.Attribute(value=value) | ast.Subscript(value=value):
                return kind(value)
            case ast.BinOp(left=left, op=ast.Div()):
                return kind(left)
            case _:
                return ""
