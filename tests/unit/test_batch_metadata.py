"""The one form of a head, compared with the pyarrow that is installed."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from bowstring.messages import metadata, schema

SAMPLE = {
    schema.KEY: [b"k", None, b""],
    schema.VALUE: [b"value", None, b"b"],
    schema.ATTRIBUTES: [[("a", "b"), ("c", "d")], None, []],
    schema.CREATED: [1, 2, 3],
    schema.DUE: [1, None, 3],
    schema.EXPIRES: [None, None, 3],
    schema.ID: ["a", "bb", "ccc"],
}


def by_pyarrow(batch: pa.RecordBatch, codec: str | None) -> bytes:
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, batch.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(batch)
    return stream.getvalue()[batch.schema.serialize().size : -8]


@pytest.mark.parametrize("codec", metadata.CODECS)
def test_heads_are_byte_by_byte_those_of_pyarrow(codec: str | None):
    for mask in range(1, schema.ALL + 1):
        arrow = schema.arrow_schema(mask)
        batch = pa.record_batch([pa.array(SAMPLE[column.bit], column.type) for column in schema.columns_of(mask)], schema=arrow)
        message = by_pyarrow(batch, codec)
        form = metadata.form(mask, codec)
        head = form.read(message)
        assert form.write(head.rows, head.lengths, head.nodes) == message[: form.size]
        assert (head.rows, head.body) == (3, len(message) - form.size)


def test_the_length_of_a_head_tells_the_compression():
    for mask in range(1, schema.ALL + 1):
        assert [form.codec for form in metadata.forms_by_size(mask).values()] == list(metadata.CODECS)


def test_a_lone_value_of_100_bytes_makes_a_batch_of_272():
    assert len(metadata.form(schema.VALUE).message(1, (b"", bytes(8), bytes(100)), (1, 0))) == 272
