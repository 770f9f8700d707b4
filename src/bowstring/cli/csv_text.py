"""CSV without loss: `read -o csv` writes it and `produce --input csv` reads the same messages back.

CSV has only text, and Python's own module cannot tell null from empty. These rules make the round
trip exact:

- A cell with nothing in it is null. A cell that is `""` is an empty text.
- A key or value that is not UTF-8 is written as `{"base64":"…"}`, as in JSON. A text that looks like this itself is written so, too.
- A cell with a separator, a quote, or the end of a line in it stands in quotes, and quotes in it are doubled. Its line ends are kept.
- In a file with a single column, an empty line is a null; elsewhere empty lines are skipped.

The reader is lenient with CSV from other programs: lines end in LF, CRLF or CR, quotes may stand
where none are needed, a byte order mark may come first. It refuses a malformed row, and names its
line.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import csv
import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

from bowstring import errors

READ_BYTES: Final = 1 << 18
ROW_CHARACTERS_MAX: Final = 1 << 27
"""The longest row. An unclosed quote swallows the rest of the file; this limit ends it."""
_QUOTED: Final = re.compile('[",\r\n]')
_LIKE_BASE64: Final = re.compile(r'\{\s*"base64"\s*:\s*"([^"\\]*)"\s*\}')
_OPEN: Final = re.compile(r'"(?:[^"]++|"")*+"')


class Row(NamedTuple):
    """A row: the number of its last line, and its cells."""

    line: int
    cells: list[str | None]


# ---- writing ---------------------------------------------------------------------------------------------------------


def line(cells: Iterable[str | None]) -> str:
    """A row as text."""
    return ",".join([cell(text) for text in cells]) + "\n"


def cell(text: str | None) -> str:
    """A cell, in quotes where it needs them."""
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def text_of(data: bytes) -> str:
    """A key or value as the text of a cell."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _as_base64(data)
    return _as_base64(data) if _like_base64(text) else text


def _like_base64(text: str) -> re.Match[str] | None:
    return _LIKE_BASE64.fullmatch(text) if text[-1:] == "}" else None


def _as_base64(data: bytes) -> str:
    return f'{{"base64":"{base64.b64encode(data).decode()}"}}'


# ---- reading ---------------------------------------------------------------------------------------------------------


def bytes_of(text: str) -> bytes:
    """The key or value that the text of a cell stands for."""
    match = _like_base64(text)
    if match is None:
        return text.encode()
    try:
        return base64.b64decode(match[1], validate=True)
    except (binascii.Error, ValueError):
        hint = 'A cell that is {"base64":"…"} stands for bytes.'
        raise errors.InvalidArgument(f"'{match[1][:60]}' is not base64.", hint=hint) from None


class _One:
    """Feeds Python's own reader one line at a time."""

    line: str | None = None

    def __iter__(self) -> _One:
        return self

    def __next__(self) -> str:
        line, self.line = self.line, None
        if line is None:
            raise StopIteration
        return line


class Reader:
    """The rows of a stream, read as they are asked for."""

    def __init__(self, stream: BinaryIO, name: str, separator: str) -> None:
        if separator in '"\r\n':
            raise errors.InvalidArgument("--separator is a quote or the end of a line.", hint="Use ';' or '\\t'.")
        apart = re.escape(separator)
        self._cell = re.compile(rf'(?:"((?:[^"]++|"")*+)"|([^{apart}"\r\n][^{apart}\r\n]*+)?)({apart}|\r\n|\n|\r|\Z)')
        self._empty = f'{separator}""{separator}'
        self._one = _One()
        self._python = csv.reader(self._one, delimiter=separator, strict=True)
        self._separator = separator
        self._name = name
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._line = 0
        self._ended = False

    def __iter__(self) -> Iterator[Row]:
        while (row := self._next()) is not None:
            yield row

    def _next(self) -> Row | None:
        while True:
            if self._ended and self._at == len(self._text):
                return None
            cells = self._simple() or self._cells()
            if cells is not None:
                return Row(self._line, cells)
            self._fill()

    def _simple(self) -> list[str | None] | None:
        """The next row in the usual case: it takes exactly one line and has no empty text in
        quotes, so Python's module can read it.
        """
        end = self._text.find("\n", self._at)
        line = self._text[self._at : end].removesuffix("\r")
        if end < 0 or "\r" in line:
            return None
        cells = line.split(self._separator)
        if '"' in line:
            if line.count('"') % 2 or self._empty in f"{self._separator}{line}{self._separator}":
                return None
            self._one.line = line
            try:
                cells = next(self._python)
            except csv.Error:
                return None
        self._line += 1
        self._at = end + 1
        return [cell or None for cell in cells]

    def _cells(self) -> list[str | None] | None:
        """The next row; None if more of the stream has to be read first."""
        cells: list[str | None] = []
        at, text = self._at, self._text
        while True:
            match = self._cell.match(text, at)
            if match is None:
                return self._unfinished(at)
            quoted, plain, end = match.groups()
            at = match.end()
            if not self._ended and at == len(text) and end != "\n" and end != self._separator:
                return None
            cells.append(plain if quoted is None else quoted.replace('""', '"'))
            if end != self._separator:
                self._took(at)
                return cells

    def _unfinished(self, at: int) -> None:
        """Refuses a cell whose quote never closes, or that has text after its closing quote.
        Returns if more of the stream may close it.
        """
        closed = _OPEN.match(self._text, at)
        if closed is None and not self._ended:
            return
        if closed is None:
            raise self._wrong("is not CSV: unexpected end of data.", "Is there a quote that is not closed?")
        raise self._wrong(f"is not CSV: '{self._separator}' expected after '\"'.", "See --separator for others than commas.")

    def _took(self, end: int) -> None:
        ends = self._text.count("\n", self._at, end) or self._text.count("\r", self._at, end)
        self._line += max(ends, 1)
        self._at = end

    def _fill(self) -> None:
        """Reads at least as much as is buffered of an unfinished row, so that a long row is not
        scanned again and again.
        """
        rest = self._text[self._at :]
        if len(rest) > ROW_CHARACTERS_MAX:
            raise self._wrong(
                f"is part of a row of more than {ROW_CHARACTERS_MAX >> 20} Mi characters.", "Is there a quote that is not closed?"
            )
        pieces, size = [rest], 0
        while not self._ended and size < max(len(rest), 1):
            data = self._read(READ_BYTES)
            self._ended = not data
            try:
                pieces.append(self._decoder.decode(data, final=not data))
            except UnicodeDecodeError:
                raise errors.Rejected(f"{self._name} is not UTF-8.", hint="Save it as UTF-8.") from None
            size += len(data)
        self._text, self._at = "".join(pieces), 0

    def _wrong(self, what: str, hint: str) -> errors.Rejected:
        """The error, with the line in which the row begins."""
        return errors.Rejected(f"{self._name} line {self._line + 1} {what}", hint=hint)
