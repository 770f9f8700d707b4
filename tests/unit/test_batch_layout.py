"""What the broker refuses, each with the sentence for it. Good batches are in test_batch_round_trip.py."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.messages import layout, limits, schema
from bowstring.messages.encoding import Encoded, encode_columns, encode_values
from bowstring.messages.metadata import form

MIB = 2**20
ONE = encode_values([b"hello"])
KEYED = encode_columns(3, values=[b"hello", b"", b"world"], keys=[b"k", None, b"kk"], due=[5, None, 7])
WHOLE = encode_columns(
    2, values=[b"a", b"b"], keys=[b"k", b"l"], attributes=[{"m": "n", "o": "p"}, {}], created=1, due=2, expires=3, ids=["x", "yy"]
)


def check(batch: Encoded, *, bytes_max: int = MIB, reserved_ok: bool = False) -> pa.RecordBatch:
    return layout.check(schema.BYTES_SCHEMA, *batch, bytes_max=bytes_max, reserved_ok=reserved_ok)


def refused(batch: Encoded, sentence: str, *, bytes_max: int = MIB, kind: type[errors.Error] = errors.InvalidArgument) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        check(batch, bytes_max=bytes_max)
    assert type(caught.value) is kind
    assert caught.value.hint


def patched(batch: Encoded, at: int, kind: str, number: int) -> Encoded:
    data = bytearray(batch.data)
    struct.pack_into(kind, data, at, number)
    return batch._replace(data=bytes(data))


def made(mask: int, rows: int, nodes: tuple[int, ...], *buffers: bytes) -> Encoded:
    """A batch with a right head over whatever buffers."""
    return Encoded(mask, rows, form(mask).message(rows, buffers, nodes))


def offsets(*spots: int) -> bytes:
    return np.array(spots, np.int32).tobytes()


def moments(*times: int) -> bytes:
    return np.array(times, np.int64).tobytes()


# -- what is taken


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_bytes_of_any_kind_are_taken(kind: Callable[[bytes], bytes]):
    batch = check(WHOLE._replace(data=kind(WHOLE.data)))
    assert batch.column("id").to_pylist() == ["x", "yy"]
    assert batch.column("attributes").to_pylist() == [[("m", "n"), ("o", "p")], []]


@pytest.mark.parametrize("shift", range(9))
def test_bytes_at_any_address_are_taken(shift: int):
    for batch in (ONE, KEYED, WHOLE):
        moved = memoryview(bytes(shift) + batch.data)[shift:]
        assert check(batch._replace(data=moved)).equals(check(batch))


def test_the_batch_stands_over_the_same_bytes():
    data = pa.py_buffer(ONE.data)
    text = check(ONE._replace(data=data)).column("value").buffers()[2]
    assert data.address < text.address < data.address + data.size


def test_our_own_attribute_names_pass_for_the_broker_alone():
    batch = encode_columns(2, values=[b"", b""], attributes=[{"a": "b"}, {"c": "d", "bowstring-reason": "late"}], reserved_ok=True)
    refused(batch, "An attribute in row 1 has a name that begins with 'bowstring-'")
    assert check(batch, reserved_ok=True).num_rows == 2
    single = encode_columns(1, values=[b""], attributes=[{"bowstring-reason": "late"}], reserved_ok=True)
    refused(single, "An attribute in row 0 has a name")
    assert check(encode_columns(2, values=[b"", b""], attributes=[{"not-bowstring-": "b"}, None])).num_rows == 2


# -- what the header declares


def test_an_unknown_schema_or_column_is_not_supported():
    with pytest.raises(errors.NotSupported, match=r"Schema 2 is not known here. Use schema 1"):
        layout.check(2, *ONE, bytes_max=MIB)
    refused(ONE._replace(mask=128 | 2), "mask 0x82 has bits that are not known", kind=errors.NotSupported)
    refused(ONE._replace(mask=-1), "bits that are not known", kind=errors.NotSupported)


def test_a_batch_without_columns_or_rows_is_refused():
    refused(ONE._replace(mask=0), "has no columns")
    refused(ONE._replace(rows=0), "is empty: it has 0 rows")
    refused(ONE._replace(rows=-1), "is empty: it has -1 rows")


def test_rows_that_do_not_fit_are_refused():
    refused(KEYED._replace(rows=2), "The header says 2 rows, the batch has 3")
    refused(KEYED._replace(rows=4), "The header says 4 rows, the batch has 3")
    refused(KEYED._replace(rows=2**70), "rows", kind=errors.TooLarge)


def test_more_bytes_than_allowed_are_too_large():
    refused(ONE, rf"The batch has {len(ONE.data)} bytes, a batch may have 100 here", bytes_max=100, kind=errors.TooLarge)
    assert check(ONE, bytes_max=len(ONE.data)).num_rows == 1


# -- the metadata


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_batch_without_a_beginning_is_truncated(size: int):
    refused(ONE._replace(data=ONE.data[:size]), f"truncated: it has {size} bytes")


def test_every_shorter_batch_is_refused_and_every_longer_one():
    for batch in (ONE, KEYED, WHOLE):
        for size in range(8, len(batch.data)):
            refused(batch._replace(data=batch.data[:size]), "is truncated")
        refused(batch._replace(data=batch.data + b"\0"), "1 bytes follow after the end")
        refused(batch._replace(data=batch.data * 2), "bytes follow after the end")


def test_a_wrong_marker_or_length_of_the_metadata_is_refused():
    refused(patched(ONE, 0, "<i", 152), "begins with 98000000, not with the marker")
    refused(patched(ONE, 4, "<i", -8), "declares -8 bytes of metadata")
    refused(patched(ONE, 4, "<i", 0), "declares 0 bytes of metadata")
    refused(patched(ONE, 4, "<i", 153), "declares 153 bytes of metadata")
    refused(patched(ONE, 4, "<i", 2**31 - 8), "is truncated: it declares")
    refused(patched(ONE, 4, "<i", 144), "not written canonically")
    refused(patched(ONE, 4, "<i", 16), "points outside of itself")


def test_messages_that_are_no_record_batches_are_refused_by_name():
    batch = pa.record_batch({"value": pa.array(["a", "b"]).dictionary_encode()})
    messages = list(pa.ipc.MessageReader.open_stream(stream_of(batch)))
    data = [message.serialize().to_pybytes() for message in messages]
    refused(Encoded(schema.VALUE, 2, data[0]), "a schema message, not a record batch")
    refused(Encoded(schema.VALUE, 2, data[1]), "a dictionary message, not a record batch")
    refused(Encoded(schema.VALUE, 2, data[2]), "1 nodes and 2 buffers; its mask names value, which make 1 and 3")


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize(
    "column", [pa.array([1, 2]), pa.array([1, 2], pa.int8()), pa.array([[b"a"], []]), pa.array([{"a": 1, "b": b""}] * 2)]
)
def test_columns_of_other_types_are_refused(column: pa.Array):
    data = pa.record_batch({"value": column}).serialize().to_pybytes()
    refused(Encoded(schema.VALUE, 2, data), "nodes and . buffers; its mask names value")


def test_other_widths_of_texts_are_refused():
    def value(kind: pa.DataType) -> Encoded:
        return Encoded(schema.VALUE, 2, pa.record_batch({"value": pa.array(["a", "b"], kind)}).serialize().to_pybytes())

    refused(value(pa.string_view()), "columns of a view type")
    refused(value(pa.large_string()), "value has offsets of 24 bytes, its rows and nulls make 12")


def test_columns_beside_the_mask_are_refused():
    refused(KEYED._replace(mask=schema.VALUE), "3 nodes and 8 buffers; its mask names value, which make 1 and 3")
    refused(ONE._replace(mask=schema.VALUE | schema.KEY), "1 nodes and 3 buffers; its mask names key, value, which make 2 and 6")


def test_custom_metadata_is_refused():
    batch = pa.record_batch({"value": pa.array([b"a"])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata={"hidden": "bytes"})
    *_, message = pa.ipc.MessageReader.open_stream(sink.getvalue())
    refused(Encoded(schema.VALUE, 1, message.serialize().to_pybytes()), "has custom metadata")


def test_buffers_that_overlap_leave_gaps_or_stand_outside_are_refused():
    # The second buffer of a lone value is its offsets, 8 bytes at 0; the third its bytes, 5 at 8.
    refused(patched(ONE, 120, "<q", 0), "Buffer 2 of the batch, 5 bytes at 0, overlaps or precedes the one before; it should begin at 8")
    refused(patched(ONE, 120, "<q", 16), "Buffer 2 .* leaves a gap before it; it should begin at 8")
    refused(patched(ONE, 120, "<q", 2**62), "leaves a gap before it")
    refused(patched(ONE, 120, "<q", -8), "overlaps or precedes")
    refused(patched(ONE, 128, "<q", -1), "has a negative length")
    refused(patched(ONE, 128, "<q", 2**63 - 1), "the body has 16 bytes, its buffers make")
    refused(patched(ONE, 128, "<q", 9), "the body has 16 bytes, its buffers make 24")
    refused(patched(ONE, 40, "<q", 24), "the body has 24 bytes, its buffers make 16")


def test_every_byte_of_a_head_counts():
    for batch in (ONE, WHOLE, encode_columns(50, values=[b"a" * 50] * 50, created=5, compression="zstd")):
        for at in range(form(batch.mask).size):
            for bit in range(8):
                data = bytearray(batch.data)
                data[at] ^= 1 << bit
                with pytest.raises(errors.Rejected):
                    check(batch._replace(data=bytes(data)))


def test_columns_that_have_other_numbers_of_rows_or_nulls_are_refused():
    good = (b"", offsets(0, 1, 2), b"ab")
    refused(made(schema.VALUE, 2, (3, 0), *good), "value has 3 rows, the batch has 2")
    refused(made(schema.VALUE, 2, (2, -1), *good), "value has -1 nulls in 2 rows")
    refused(made(schema.VALUE, 2, (2, 3), *good), "value has 3 nulls in 2 rows")


def test_a_column_of_nulls_is_left_out_but_for_a_lone_value():
    nothing = (b"\0", offsets(0, 0, 0), b"")
    assert check(made(schema.VALUE, 2, (2, 2), *nothing)).column("value").null_count == 2
    refused(made(schema.KEY, 2, (2, 2), *nothing), "key has nothing but nulls. Leave the column out")
    both = made(schema.KEY | schema.VALUE, 2, (2, 0, 2, 2), b"", offsets(0, 1, 2), b"ab", *nothing)
    refused(both, "value has nothing but nulls")


# -- buffers


def test_a_validity_bitmap_is_there_with_nulls_and_only_then():
    refused(made(schema.VALUE, 2, (2, 0), b"\3", offsets(0, 1, 2), b"ab"), "value has a validity bitmap of 1 bytes, .* make 0")
    refused(made(schema.VALUE, 2, (2, 1), b"", offsets(0, 1, 1), b"a"), "value has a validity bitmap of 0 bytes, .* make 1")
    refused(made(schema.VALUE, 2, (2, 1), b"\1\0", offsets(0, 1, 1), b"a"), "validity bitmap of 2 bytes")
    refused(made(schema.VALUE, 2, (2, 1), b"\5", offsets(0, 1, 1), b"a"), "bits behind its last row")
    refused(made(schema.VALUE, 2, (2, 1), b"\3", offsets(0, 1, 2), b"ab"), "damaged: .*null_count")


def test_bytes_under_a_null_are_refused():
    refused(made(schema.VALUE, 2, (2, 1), b"\1", offsets(0, 1, 2), b"ab"), "value has bytes under a null")
    refused(made(schema.DUE, 2, (2, 1), b"\1", moments(5, 6)), "due has bytes under a null")
    names = (offsets(0, 1), b"a", b"", offsets(0, 1), b"b")
    hidden = made(schema.ATTRIBUTES, 2, (2, 1, 1, 0, 1, 0, 1, 0), b"\1", offsets(0, 0, 1), b"", b"", *names)
    refused(hidden, "attributes has bytes under a null")


def test_offsets_and_times_have_the_size_that_the_rows_give_them():
    refused(made(schema.VALUE, 2, (2, 0), b"", offsets(0, 1), b"a"), "value has offsets of 8 bytes, its rows and nulls make 12")
    refused(made(schema.VALUE, 2, (2, 0), b"", b"", b"a"), "value has offsets of 0 bytes")
    refused(made(schema.DUE, 2, (2, 0), b"", moments(5)), "due has times of 8 bytes, its rows and nulls make 16")


def test_offsets_that_fall_or_do_not_span_the_data_are_refused():
    refused(made(schema.VALUE, 2, (2, 0), b"", offsets(1, 1, 2), b"ab"), "offsets of value go from 1 to 2, the data from 0 to 2")
    refused(made(schema.VALUE, 2, (2, 0), b"", offsets(0, 1, 2), b"abc"), "offsets of value go from 0 to 2, the data from 0 to 3")
    refused(made(schema.VALUE, 2, (2, 0), b"", offsets(0, 1, 3), b"ab"), "is damaged")
    refused(made(schema.VALUE, 2, (2, 0), b"", offsets(0, 3, 2), b"ab"), "is damaged")
    refused(made(schema.VALUE, 2, (2, 0), b"", offsets(0, -1, 2), b"ab"), "is damaged")


def test_bytes_in_the_padding_are_refused():
    refused(ONE._replace(data=ONE.data[:-1] + b"x"), "bytes in the padding")
    padding = len(ONE.data) - 3
    assert ONE.data[padding:] == bytes(3)
    refused(patched(ONE, padding, "<B", 1), "bytes in the padding")


# -- contents


@pytest.mark.parametrize("time", [-1, limits.MOMENT_MAX, 2**63 - 1, -(2**63)])
def test_times_before_1970_and_from_2200_on_are_refused(time: int):
    for name, bit in (("created", schema.CREATED), ("due", schema.DUE), ("expires", schema.EXPIRES)):
        refused(made(bit, 1, (1, 0), b"", moments(time)), f"{name} in row 0 is {time} µs since 1970, which is out of range")
        refused(made(bit, 3, (3, 0), b"", moments(0, 5, time)), f"{name} in row 2 is {time} µs since 1970")
    assert check(made(schema.DUE, 2, (2, 0), b"", moments(0, limits.MOMENT_MAX - 1))).num_rows == 2


def test_ids_are_text_of_1_to_256_bytes_in_every_row():
    def ids(*texts: bytes) -> Encoded:
        spots = np.cumsum([0, *map(len, texts)], dtype=np.int32).tobytes()
        return made(schema.ID, len(texts), (len(texts), 0), b"", spots, b"".join(texts))

    assert check(ids(b"a", b"b" * 256)).num_rows == 2
    assert check(ids(b"a", b"a")).num_rows == 2
    refused(ids(b""), "The id in row 0 is empty")
    refused(ids(b"a", b"", b"b"), "The id in row 1 is empty")
    refused(ids(b"c" * 257), "The id in row 0 has 257 bytes. An id has at most 256")
    refused(ids(b"a", b"b" * 257), "The id in row 1 has 257 bytes")
    refused(ids(b"a", b"\xff"), "damaged: .*UTF8")
    refused(made(schema.ID, 2, (2, 1), b"\1", offsets(0, 1, 1), b"a"), "1 of 2 ids are null")


def attributes(rows: tuple[int, ...], names: list[bytes], values: list[bytes], nodes: tuple[int, ...] | None = None) -> Encoded:
    count, length = len(names), len(rows) - 1
    spots = [np.cumsum([0, *map(len, texts)], dtype=np.int32).tobytes() for texts in (names, values)]
    nodes = nodes or (length, 0, count, 0, count, 0, count, 0)
    buffers = (b"", offsets(*rows), b"", b"", spots[0], b"".join(names), b"", spots[1], b"".join(values))
    return made(schema.ATTRIBUTES, length, nodes, *buffers)


def test_attributes_that_are_not_text_are_refused():
    assert check(attributes((0, 1, 1), [b"a"], [b"b"])).num_rows == 2
    refused(attributes((0, 1), [b"\xff"], [b"b"]), "damaged: .*UTF8")
    refused(attributes((0, 1), [b"a"], [b"\xc3"]), "damaged: .*UTF8")
    for nodes in ((1, 0, 1, 1, 1, 0, 1, 0), (1, 0, 1, 0, 1, 1, 1, 0), (1, 0, 1, 0, 1, 0, 1, 1), (1, 0, 1, 0, 1, 0, 2, 0)):
        refused(attributes((0, 1), [b"a"], [b"b"], nodes), "names or values that are null")
    refused(attributes((0, 1), [b"a"], [b"b"], (1, 0, -1, 0, -1, 0, -1, 0)), "names or values that are null")


def test_attributes_whose_offsets_do_not_span_the_entries_are_refused():
    refused(attributes((0, 1), [b"a", b"b"], [b"c", b"d"]), "offsets of attributes go from 0 to 1, the data from 0 to 2")
    refused(attributes((1, 2), [b"a", b"b"], [b"c", b"d"]), "offsets of attributes go from 1 to 2")
    refused(attributes((0, 3), [b"a", b"b"], [b"c", b"d"]), "is damaged")
    refused(attributes((0, 1), [b"a"], [b"b"], (1, 0, 9, 0, 9, 0, 9, 0)), "offsets of its texts of 8 bytes, its rows and nulls make 40")


def test_an_attribute_that_is_there_twice_in_a_row_is_refused():
    refused(attributes((0, 2), [b"a", b"a"], [b"c", b"d"]), "Row 0 has the attribute 'a' twice")
    refused(attributes((0, 1, 4), [b"a", b"b", b"c", b"b"], [b""] * 4), "Row 1 has the attribute 'b' twice")
    assert check(attributes((0, 1, 3), [b"a", b"b", b"a"], [b""] * 3)).num_rows == 2


# -- compression


def packed(batch: Encoded, codec: str, *declared: int | None) -> Encoded:
    """The batch compressed buffer by buffer, with these sizes declared instead of the true ones."""
    head = form(batch.mask).read(batch.data)
    buffers: list[bytes] = []
    position = form(batch.mask).size
    for length, size in zip(head.lengths, declared, strict=True):
        raw = batch.data[position : position + length]
        position += (length + 7) & -8
        body = pa.Codec(codec).compress(raw, asbytes=True) if raw else b""
        buffers.append(struct.pack("<q", length if size is None else size) + body if raw else b"")
    return batch._replace(data=form(batch.mask, codec).message(head.rows, buffers, head.nodes))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_batches_are_checked_by_what_they_declare(codec: str):
    batch = encode_values([b"ab" * 500] * 20)
    assert check(packed(batch, codec, None, None, None)).equals(check(batch))
    refused(packed(batch, codec, None, 80, None), "value has offsets of 80 bytes, its rows and nulls make 84")
    refused(packed(batch, codec, None, None, -2), "declares a size of -2")
    refused(packed(batch, codec, None, None, 0), "declares a size of 0")
    refused(packed(batch, codec, None, None, 19_999), "is damaged")
    refused(packed(batch, codec, None, None, 20_001), "is damaged")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_bomb_is_refused_before_it_is_decompressed(codec: str, monkeypatch: pytest.MonkeyPatch):
    def never(*_: object) -> pa.RecordBatch:
        raise AssertionError("the bomb went off")

    monkeypatch.setattr(pa.ipc, "read_record_batch", never)
    bomb = encode_values([bytes(2**24)], compression=codec)
    assert len(bomb.data) < 2**17
    refused(bomb, "would have 167774.. bytes when decompressed, a batch may have 1048576 here", kind=errors.TooLarge)
    for liar in (2**40, 2**62, 2**63 - 1):
        refused(packed(encode_values([b"a" * 100]), codec, None, None, liar), "when decompressed", kind=errors.TooLarge)


def test_damaged_compression_is_refused_or_gives_another_valid_batch():
    batch = encode_values([b"ab" * 500] * 20, compression="zstd")
    for at in range(form(schema.VALUE, "zstd").size + 8, len(batch.data), 3):
        data = bytearray(batch.data)
        data[at] ^= 0x55
        with contextlib.suppress(errors.Rejected):
            check(batch._replace(data=bytes(data))).validate(full=True)


def test_what_is_wrong_inside_is_found_behind_compression_too():
    bad = made(schema.VALUE, 40, (40, 0), b"", offsets(1, *range(1, 41)), bytes(40))
    refused(packed(bad, "lz4", None, None, None), "offsets of value go from 1 to 40")
    late = made(schema.DUE, 40, (40, 0), b"", moments(*[-1] * 40))
    refused(packed(late, "zstd", None, None), "due in row 0 is -1")
