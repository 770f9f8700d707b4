"""The Python reference, from signatures and docstrings: the text of docs/reference/python.md.

`__all__` names everything public. A class is shown with its members without an underscore, in the
order of the source, inherited ones last; fields with the text below them, which only the source
has. The async face has the same names and parameters, so only its signatures are listed, with
`async` where they have to be awaited.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

import bowstring
import bowstring.aio
import bowstring.spark
from bowstring.client.statistics import BrokerInfo, ClientStatistics, Info, ProducerStatistics, ReaderStatistics

WIDTH: Final = 85
FIRST: Final = ("connect", "Client", "Producer", "Receipt", "BatchReceipt", "Stored", "Answers", "Reader", "Batch", "Message", "Topic")
"""The order in which a program meets them; the others follow by name."""
VALUES: Final = (Info, BrokerInfo, ClientStatistics, ProducerStatistics, ReaderStatistics)
SILENT: Final = {"check", "count", "index", "let_pass", "moved", "open", "parts"}
"""What parts of Bowstring, or a tuple, need of these classes, and programs do not."""

INTRODUCTION: Final = """# Python

`import bowstring` brings everything on this page. It loads neither the broker nor Arrow until they
are used. Everything else is private. Errors are on [a page of their own](errors.md).

- A **moment** is an aware `datetime`. A **span** is a `timedelta` or a number of seconds.
- `Start` and `End` are `"beginning"`, `"latest"`, an offset, `{partition: offset}`, `-100` for the newest hundred, a moment, or a
  `timedelta` from now: see [Reading](../reading.md).
"""
ASYNC: Final = """## bowstring.aio

{text}

Names, parameters and defaults are those above. Await the calls that are `async` here. A receipt is
awaited, too: `await producer.send(value)` waits until the message is durable.
"""

_ANNOTATION: Final = re.compile(r"(?<=: |> )'([^']*)'")
"""An annotation, which is text where it is not evaluated."""


class Member(NamedTuple):
    """A member of a class, and its description."""

    name: str
    shown: str
    text: str


def python_text() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    names = [name for name in FIRST if name in bowstring.__all__]
    names += [name for name in bowstring.__all__ if name not in FIRST and _is_shown(getattr(bowstring, name))]
    parts += [_entry(name, getattr(bowstring, name)) for name in names]
    parts.append("## What client.info and statistics() give\n")
    parts += [_entry(cls.__name__, cls).replace("## ", "### ", 1) for cls in VALUES]
    parts.append(f"## bowstring.spark\n\n{_first(bowstring.spark)} See [the guide](../guides/spark.md).\n")
    parts += [_function(f"bowstring.spark.{name}", getattr(bowstring.spark, name)) for name in bowstring.spark.__all__]
    text = _first(bowstring.aio).replace(", with await before every call that waits.", ".")
    parts.append(ASYNC.format(text=text))
    parts += [_listing(name, getattr(bowstring.aio, name)) for name in names if _differs(name)]
    return "\n".join(parts).rstrip() + "\n"


def _is_shown(found: Any) -> bool:
    return not isinstance(found, ModuleType) and not (inspect.isclass(found) and issubclass(found, BaseException))


def _differs(name: str) -> bool:
    return getattr(bowstring.aio, name) is not getattr(bowstring, name)


def _first(found: Any) -> str:
    """The first paragraph of a docstring, unwrapped."""
    return " ".join((inspect.getdoc(found) or "").split("\n\n")[0].split())


def _text(found: Any) -> str:
    text = inspect.getdoc(found) or ""
    return "" if text.startswith("Alias for field number") else textwrap.fill(" ".join(text.split()), 130, break_long_words=False)


def _entry(name: str, found: Any) -> str:
    if not inspect.isclass(found):
        return _function(f"bowstring.{name}", found, level="##")
    parts = [f"## {name}\n\n{_text(found)}\n"]
    if name == "Broker":
        parts.append(f"```py\n{_signature('Broker', found)}\n```\n")
    members = list(_members(found))
    fields = [member for member in members if not member.shown]
    if fields:
        rows = "".join(f"| `{member.name}` | {member.text} |\n" for member in fields)
        parts.append(f"| | type | |\n|---|---|---|\n{rows}")
    parts += [f"### {name}.{each.name}\n\n```py\n{each.shown}\n```\n\n{each.text}\n" for each in members if each.shown]
    return "\n".join(parts)


def _function(name: str, found: Any, level: str = "###") -> str:
    return f"{level} {name}\n\n```py\n{_signature(name, found)}\n```\n\n{_text(found)}\n"


def _listing(name: str, found: Any) -> str:
    """The signatures of a class alone."""
    if not inspect.isclass(found):
        return f"### aio.{name}\n\n```py\n{_signature('bowstring.aio.' + name, found)}\n```\n"
    shown = "\n".join(member.shown for member in _members(found) if member.shown and not member.shown.startswith("@property"))
    return f"### aio.{name}\n\n```py\n{shown}\n```\n"


def _members(cls: type[Any]) -> Iterator[Member]:
    seen: set[str] = set(SILENT)
    for owner in cls.__mro__:
        if not owner.__module__.startswith("bowstring"):
            continue
        fields = _fields(owner)
        names = dict.fromkeys([*fields, *vars(owner)])
        for name in names:
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            found = inspect.getattr_static(owner, name)
            if isinstance(found, property):
                returned = inspect.signature(found.fget).return_annotation if found.fget else ""
                yield Member(name, "", f"`{_cell(returned)}` | {_cell(_text(found))}")
            elif inspect.isfunction(found) or isinstance(found, classmethod):
                bound: Any = getattr(cls, name)
                yield Member(name, _signature(name, bound), _text(bound))
            elif name in fields:
                yield Member(name, "", fields[name])


def _fields(cls: type[Any]) -> dict[str, str]:
    """The fields that a class declares, or sets in its `__init__` and names in its slots, with
    their types and the texts below them.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, below in _pairs(tree.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = f"`{_cell(ast.unparse(statement.annotation))}` | {_cell(below)}"
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            found |= _set_in(statement, vars(cls).get("__slots__", ()))
    return {name: text for name, text in found.items() if not name.startswith("_")}


def _set_in(function: ast.FunctionDef, slots: tuple[str, ...]) -> dict[str, str]:
    types = {argument.arg: ast.unparse(argument.annotation) for argument in function.args.args if argument.annotation is not None}
    found: dict[str, str] = {}
    for statement, below in _pairs(function.body):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
            name = statement.targets[0].attr
            if name in slots and name in types:
                found[name] = f"`{_cell(types[name])}` | {_cell(below)}"
    return found


def _pairs(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement with the text that stands below it."""
    for at, statement in enumerate(body):
        after = body[at + 1] if at + 1 < len(body) else None
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
        yield statement, " ".join(after.value.value.split()) if is_text else ""  # type: ignore[union-attr]


def _cell(text: str) -> str:
    """As it stands in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _signature(name: str, found: Any) -> str:
    """As it would be written, a parameter a line if it does not fit on one."""
    signature = inspect.signature(found)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    shown = str(signature.replace(parameters=parameters))
    shown = _ANNOTATION.sub(r"\1", shown).replace("= Ellipsis", "= ...").replace("= datetime.timedelta", "= timedelta")
    prefix = "async " if inspect.iscoroutinefunction(found) else ""
    line = f"{prefix}{name}{shown}"
    if len(line) <= WIDTH:
        return line
    inside = _split(shown)
    return f"{prefix}{name}(\n" + "".join(f"    {part},\n" for part in inside[0]) + ")" + inside[1]


def _split(shown: str) -> tuple[list[str], str]:
    """The parameters of a signature one by one, and what follows behind them."""
    depth, begin, parts = 0, 1, []
    for at, character in enumerate(shown):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                return [*parts, shown[begin:at].strip()], shown[at + 1 :]
        elif character == "," and depth == 1:
            parts.append(shown[begin:at].strip())
            begin = at + 1
    raise AssertionError(shown)
