"""Filters: a small part of SQL over the fields of a message other than its value, as text and as a
tree.

    attributes.country = 'CH' and (key like 'customer-%' or created >= '2026-11-15T09:00Z') and not attributes['test'] is null
    partition in (0, 3) and offset between 17 and 40

    filter    = all { "or" all }              all = part { "and" part }
    part      = "not" part | "(" filter ")" | test
    test      = operand ("=" | "!=" | "<>" | "<" | "<=" | ">" | ">=") operand
              | operand ["not"] "in" "(" value { "," value } ")"
              | operand ["not"] "like" value  | operand ["not"] "between" value "and" value
              | operand "is" ["not"] "null"
    operand   = column | value
    column    = "key" | "attributes" "." name | "attributes" "[" text "]" | "created" | "arrived" | "due" | "expires"
              | "partition" | "offset"
    value     = 'text' (a quote in it is doubled) | x'6b6579' (bytes, for keys) | 17 (for partition and offset)

Attributes are text, a key is bytes that are compared with text as UTF-8, and times are compared
with moments as commands write them: `2026-11-15T09:00Z`, or `-1h` from now. Partition and offset
are whole numbers. As in SQL, a test of a null is neither true nor false, and only rows for which
the whole filter is true pass.

The kit reads a filter to refuse a wrong one at once, the broker reads it again and applies it
(`filter_kernels`). Nothing here touches Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from bowstring import errors, times

LENGTH_MAX: Final = 4000
DEPTH_MAX: Final = 50
TIMES: Final = ("created", "arrived", "due", "expires")
NUMBERS: Final = ("partition", "offset")
NUMBER_MAX: Final = 2**63 - 1
MOMENT_LASTS: Final = 'Use "2026-11-15T09:00Z" or "2026-11-15T10:00+01:00".'

_TOKEN = re.compile(
    r"\s*(?:(?P<hex>[xX]'[^']*')|(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z_][\w-]*)|(?P<number>\d[\w.]*)"
    r"|(?P<sign><>|<=|>=|!=|[=<>(),.\[\]]))"
)
_COMPARISONS: Final = {
    "=": "equal",
    "!=": "not_equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_TURNED: Final = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
_COLUMNS: Final = "key, attributes.NAME, attributes['NAME'], created, arrived, due, expires, partition, offset"


class ColumnName(NamedTuple):
    """A column of a message; `attribute` names which of the attributes it is."""

    name: str
    attribute: str = ""

    @property
    def is_time(self) -> bool:
        return self.name in TIMES

    @property
    def is_number(self) -> bool:
        return self.name in NUMBERS

    @property
    def kind(self) -> str:
        """The kind of the column. Columns of one kind can be compared with each other."""
        return "times" if self.is_time else "numbers" if self.is_number else "keys" if self.name == "key" else "text"


Value = bytes | str | int
"""A value of a key, an attribute, a time in microseconds or a number."""


class Compare(NamedTuple):
    """A test of a column against a value or another column; `kernel` is the name that Arrow has for
    it.
    """

    kernel: str
    column: ColumnName
    other: Value | ColumnName


class In(NamedTuple):
    """Is it one of these?"""

    column: ColumnName
    values: tuple[Value, ...]


class Like(NamedTuple):
    """Does it look like this: `%` is any text, `_` any character."""

    column: ColumnName
    pattern: Value


class IsNull(NamedTuple):
    """Is there nothing?"""

    column: ColumnName


class Not(NamedTuple):
    """The opposite."""

    part: Filter


class Every(NamedTuple):
    """All of them."""

    parts: tuple[Filter, ...]


class Any(NamedTuple):
    """At least one of them."""

    parts: tuple[Filter, ...]


Filter = Compare | In | Like | IsNull | Not | Every | Any


def parse(text: str, now: int | None = 0) -> Filter:
    """The tree of a filter. Raises InvalidArgument that points at the place. Moments such as `-1h`
    count from `now`; if that is None they are refused, because a filter that lasts means the same at all
    times.
    """
    if len(text) > LENGTH_MAX:
        raise errors.InvalidArgument(f"where has {len(text)} characters.", hint=f"The maximum is {LENGTH_MAX}.")
    if not text.strip():
        raise errors.InvalidArgument("where is empty.", hint="Omit it, or write for example \"attributes.country = 'CH'\".")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        hint = "A key that is no text is written x'ff00'."
        raise errors.InvalidArgument(f"where has {text[error.start]!r}, which is no character.", hint=hint) from None
    return _Parser(text, now).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    place: int

    @property
    def word(self) -> str:
        """A keyword, in lower case; empty if it is something else."""
        return self.text.lower() if self.kind == "word" else ""


class _Literal(NamedTuple):
    token: _Token
    value: str | bytes | int


class _Parser:
    """Goes through the tokens from left to right."""

    def __init__(self, text: str, now: int | None) -> None:
        self._text = text
        self._now = now
        self._tokens = list(self._split())
        self._at = 0
        self._depth = 0

    def _split(self) -> list[_Token]:
        found: list[_Token] = []
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None or match.lastgroup is None:
                place = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                what = "a text that does not end" if self._text[place] == "'" else f"{self._text[place]!r}, which has no meaning here"
                hint = "Close it with a quote; a quote inside is written twice." if self._text[place] == "'" else _right()
                self._refuse(place, f"it has {what}", hint)
            found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            position = match.end()
        found.append(_Token("end", "", end))
        return found

    # ---- the grammar

    def whole(self) -> Filter:
        found = self._any()
        if self._now_at.kind != "end":
            self._refuse(
                self._now_at.place, f"{self._shown()} follows where it could end", "Join tests with and, or; compare with = < > in like is."
            )
        return found

    def _any(self) -> Filter:
        return self._joined("or", self._every, Any)

    def _every(self) -> Filter:
        return self._joined("and", self._part, Every)

    def _joined(self, word: str, part: Callable[[], Filter], kind: type[Every | Any]) -> Filter:
        parts = [part()]
        while self._skip(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _part(self) -> Filter:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._refuse(self._now_at.place, "it is nested too deeply", f"The maximum is {DEPTH_MAX} levels.")
        try:
            if self._skip("not"):
                return Not(self._part())
            if self._skip("("):
                found = self._any()
                self._expect(")")
                return found
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> Filter:
        left, token = self._operand(), self._now_at
        if token.text in _COMPARISONS:
            self._at += 1
            return self._compare(_COMPARISONS[token.text], left, self._operand(), token)
        if not isinstance(left, ColumnName):
            self._refuse(left.token.place, f"{left.token.text} is compared with nothing", f"Compare it with one of {_COLUMNS}.")
        if self._skip("is"):
            negated = self._skip("not")
            self._expect("null")
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self._skip("not")
        if self._skip("in"):
            found: Filter = self._in(left)
        elif self._skip("like"):
            found = self._like(left)
        elif self._skip("between"):
            low = self._value(left)
            self._expect("and")
            found = Every((Compare("greater_equal", left, low), Compare("less_equal", left, self._value(left))))
        else:
            self._refuse(self._now_at.place, f"{self._shown()} is no comparison", "Compare with = != < <= > >= in like between is null.")
        return Not(found) if negated else found

    def _compare(self, kernel: str, left: ColumnName | _Literal, right: ColumnName | _Literal, token: _Token) -> Filter:
        if isinstance(left, ColumnName):
            if isinstance(right, _Literal):
                return Compare(kernel, left, self._fitting(left, right))
            if left.kind != right.kind:
                hint = "Compare times with times, text with text, numbers with numbers."
                self._refuse(token.place, f"{left.name} and {right.name} are of different kinds", hint)
            return Compare(kernel, left, right)
        if isinstance(right, ColumnName):
            return Compare(_TURNED.get(kernel, kernel), right, self._fitting(right, left))
        self._refuse(left.token.place, "two values are compared with each other", f"Compare one of {_COLUMNS}.")

    def _in(self, column: ColumnName) -> Filter:
        self._expect("(")
        values = [self._value(column)]
        while self._skip(","):
            values.append(self._value(column))
        self._expect(")")
        return In(column, tuple(values))

    def _like(self, column: ColumnName) -> Filter:
        if column.is_time or column.is_number:
            what = "a time" if column.is_time else "a number"
            self._refuse(self._now_at.place, f"{column.name} is {what}, which is like no text", "Compare it with < and >, or between.")
        if self._now_at.kind == "hex":
            self._refuse(self._now_at.place, "a pattern is written in bytes", "Write it as text: like 'customer-%'.")
        return Like(column, self._value(column))

    def _operand(self) -> ColumnName | _Literal:
        token = self._now_at
        if token.kind in ("text", "hex", "number"):
            return self._literal()
        name = token.text
        if token.kind != "word" or name not in ("key", "attributes", *TIMES, *NUMBERS):
            self._refuse(token.place, f"{self._shown()} is no column", f"There are {_COLUMNS}; text is written 'in quotes'.")
        self._at += 1
        return ColumnName(name, self._attribute(token)) if name == "attributes" else ColumnName(name)

    def _attribute(self, attributes: _Token) -> str:
        if self._skip("["):
            token = self._now_at
            if token.kind != "text":
                self._refuse(token.place, f"{self._shown()} is no name of an attribute", "Write attributes['NAME'].")
            self._at += 1
            self._expect("]")
            return _unquoted(token.text)
        if not self._skip("."):
            self._refuse(attributes.place, "attributes stands alone", "Name one: attributes.country, or attributes['country'].")
        token = self._now_at
        if token.kind not in ("word", "number"):
            self._refuse(
                token.place, f"{self._shown()} is no name of an attribute", "Write attributes['NAME'] for names of other characters."
            )
        self._at += 1
        return token.text

    # ---- values

    def _value(self, column: ColumnName) -> Value:
        token = self._now_at
        if token.kind not in ("text", "hex", "number"):
            self._refuse(token.place, f"{self._shown()} stands where a value should", "Write text 'in quotes'.")
        return self._fitting(column, self._literal())

    def _literal(self) -> _Literal:
        token = self._now_at
        self._at += 1
        if token.kind == "text":
            return _Literal(token, _unquoted(token.text))
        if token.kind == "number":
            return _Literal(token, self._number(token))
        try:
            return _Literal(token, bytes.fromhex(token.text[2:-1]))
        except ValueError:
            self._refuse(token.place, f"{token.text} is not written in pairs of hexadecimal digits", "Use x'6b6579'.")

    def _number(self, token: _Token) -> int:
        if not token.text.isdecimal() or int(token.text) > NUMBER_MAX:
            self._refuse(token.place, f"{token.text} is not a whole number", f"Text is written in quotes: '{token.text}'.")
        return int(token.text)

    def _fitting(self, column: ColumnName, literal: _Literal) -> Value:
        """The value in the type of the column."""
        value, place = literal.value, literal.token.place
        if column.is_number != isinstance(value, int):
            self._refuse(place, *_of_another_kind(column, literal.token.text))
        if column.is_number or isinstance(value, int):
            return value
        if column.name == "key":
            return value.encode() if isinstance(value, str) else value
        if isinstance(value, bytes):
            self._refuse(place, f"{column.name} is compared with bytes", "Only a key is bytes; write 'text'.")
        if not column.is_time:
            return value
        if self._now is None and value.strip()[:1] in ("-", "+"):
            self._refuse(place, f"{literal.token.text} counts from now, and this filter lasts", "Write a moment: '2026-11-15T09:00Z'.")
        try:
            return times.moment_from_text(value, column.name, self._now or 0)
        except errors.InvalidArgument as error:
            is_wrong = self._now is None and '"-1h"' in error.hint
            self._refuse(place, f"{literal.token.text} is not a moment", MOMENT_LASTS if is_wrong else error.hint)

    # ---- tokens

    @property
    def _now_at(self) -> _Token:
        return self._tokens[self._at]

    def _skip(self, wanted: str) -> bool:
        token = self._now_at
        if token.word == wanted or (token.kind == "sign" and token.text == wanted):
            self._at += 1
            return True
        return False

    def _expect(self, wanted: str) -> None:
        if not self._skip(wanted):
            self._refuse(self._now_at.place, f"{self._shown()} stands where {wanted!r} should", _right())

    def _shown(self) -> str:
        return repr(self._now_at.text) if self._now_at.text else "the end"

    def _refuse(self, place: int, what: str, hint: str) -> NoReturn:
        begin = max(0, place - 30)
        near = ("…" if begin else "") + self._text[begin:place] + "▸" + self._text[place : place + 20]
        near += "…" if len(self._text) > place + 20 else ""
        details = {"character": str(place + 1)}
        raise errors.InvalidArgument(f"where is not understood at character {place + 1} ({near}): {what}.", hint=hint, details=details)


def _of_another_kind(column: ColumnName, value: str) -> tuple[str, str]:
    """What is wrong with a value that should or should not be a number, and what to write."""
    if column.is_number:
        return f"{column.name} is compared with {value}", f"It is a whole number: write {column.name} = 17."
    if column.is_time:
        return f"{value} is a number", f"{column.name} is a time: write '2026-11-15T09:00Z' or '-1h'."
    return f"{value} is a number", f"Keys and attributes are text: write '{value}'."


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _right() -> str:
    return "Write for example \"attributes.country = 'CH' and created >= '-1h'\"."
