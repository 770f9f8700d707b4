"""What the reference says is what the code says; and the protocol page speaks of everything that the schema has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reference
from bowstring import errors
from bowstring.messages import encoding, metadata
from bowstring.ports.calls import CALLS, Call
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.grpc_status import CODES

PAGES = reference.pages()
PROTOCOL = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")

PUBLISHING = ("PublishOpen", "PublishRequest", "PublishAnswer")
READING = ("FetchOpen", "FetchRequest", "FetchAnswer")
CONSUMING = ("ConsumeOpen", "ConsumeRequest", "ConsumeCredit", "ConsumeAnswer", "ConsumeOpened", "SettleRows", "ExtendRows")
CONSUMED = ("HeldLeases", "Lease", "RowsSettled", "RowsExtended", "RefusedRows")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_the_code_gives(name: str) -> None:
    assert (reference.FOLDER / name).read_text(encoding="utf-8") == PAGES[name], "run: python tools/reference.py"


def test_the_table_of_calls_is_the_one_that_the_code_has() -> None:
    table = PROTOCOL.partition("| call | form | when its answer is lost |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| `{call.name}` | {form(call)} | {repeating(call)} |" for call in CALLS.values()]


def form(call: Call) -> str:
    return "stream" if call.stream else "unary, may wait" if call.waits else "unary"


def repeating(call: Call) -> str:
    if call.stream:
        return "open another stream"
    return "repeat it" + (f"; then `{call.done.kind}` means that the lost call was carried out" if call.done else "")


@pytest.mark.parametrize("message", [*PUBLISHING, *READING, *CONSUMING, *CONSUMED])
def test_the_protocol_page_has_every_field_of_the_streams(message: str) -> None:
    for field in pb.DESCRIPTOR.message_types_by_name[message].fields:
        assert re.search(rf"`{field.name}`|\b{field.name}[:,]", PROTOCOL), field.name


def test_the_protocol_page_has_every_kind_of_error_with_its_status() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `([A-Z_]+)` \|", PROTOCOL, flags=re.MULTILINE))
    for kind, cls in errors._KINDS.items():
        code = next(CODES[each] for each in cls.__mro__ if each in CODES)
        if kind in rows:
            assert rows[kind] == code
        else:
            assert f"`{kind}`" in PROTOCOL
            assert f"`{code}`" in PROTOCOL
    assert rows.keys() <= errors._KINDS.keys()


def test_the_worked_example_is_what_the_kit_writes() -> None:
    (block,) = re.findall(r"```hex\n(.*?)```", PROTOCOL, flags=re.DOTALL)
    shown = [(int(line[:4]), bytes.fromhex(line[6:54])) for line in block.splitlines()]
    assert [at for at, _ in shown] == list(range(0, 296, 16))
    written = encoding.encode_columns(2, values=[b"one coffee", b"tea"], keys=["customer-42", None])
    assert (written.mask, written.rows) == (3, 2)
    assert b"".join(data for _, data in shown) == written.data


@pytest.mark.parametrize(("codec", "column"), [("lz4", 1), ("zstd", 2)])
def test_the_constants_of_compressed_heads_are_those_that_are_written(codec: str, column: int) -> None:
    buffers = nodes = 1
    table = PROTOCOL[PROTOCOL.index("| at | LZ4 | ZSTD |") :]
    found = b""
    for line in re.findall(r"^\| \d.*\|$", table, flags=re.MULTILINE):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        cell = cells[1] if cells[column] == "the same" else cells[column]
        constant = re.fullmatch(r"`([0-9a-f ]+)`", cell)
        if constant:
            found += bytes.fromhex(constant[1])
        else:
            wide = cell.startswith("int64")
            formula = re.match(r"int32: (\d+) \+ 16 × buffers", cell)
            number = int(formula[1]) + 16 * buffers if formula else 0
            found += number.to_bytes(8 if wide else 4, "little")
    form = metadata.Form(2, codec)
    head = form.write(0, [0] * form.buffers, [0, 0] * nodes)
    start = 8 + len(found)
    expected = bytearray(head[8:start])
    expected[-4:] = bytes(4)  # how many buffers there are
    at = 68 - 8
    expected[at : at + 4] = (int.from_bytes(expected[at : at + 4], "little") - 16 * (form.buffers - buffers)).to_bytes(4, "little")
    assert found == bytes(expected)
