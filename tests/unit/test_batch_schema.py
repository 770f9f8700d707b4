"""Columns and masks."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.messages import limits, schema


def test_columns_stand_in_the_order_of_the_design_with_rising_bits():
    assert [column.name for column in schema.COLUMNS] == ["key", "value", "attributes", "created", "due", "expires", "id"]
    assert [column.bit for column in schema.COLUMNS] == [1, 2, 4, 8, 16, 32, 64]
    assert sum(column.bit for column in schema.COLUMNS) == schema.ALL


def test_a_mask_and_its_names_belong_together():
    assert schema.mask_of(["id", "key"]) == schema.ID | schema.KEY
    assert schema.arrow_schema(schema.ID | schema.KEY).names == ["key", "id"]
    assert schema.names_of(schema.ID | schema.KEY) == "key, id"


def test_the_arrow_schema_has_the_types_of_the_api():
    whole = schema.arrow_schema(schema.ALL)
    assert whole.field("attributes").type == pa.map_(pa.utf8(), pa.utf8())
    assert whole.field("due").type == pa.timestamp("us", "UTC")
    assert schema.arrow_schema(schema.ALL) is whole


def test_an_unknown_or_repeated_column_is_refused():
    with pytest.raises(errors.InvalidArgument, match=r"no column 'vlaue'. Its columns are key, value"):
        schema.mask_of(["vlaue"])
    with pytest.raises(errors.InvalidArgument, match="'key' is there twice"):
        schema.mask_of(["key", "key"])


def test_moments_end_before_the_year_2200():
    assert datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1_000_000 == limits.MOMENT_MAX
