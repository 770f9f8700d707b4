"""Tables of Spark's catalog: `CREATE TABLE orders USING bowstring OPTIONS (subscribe 'orders')`.

Spark mixes a table's properties into the options when it makes the table, and hands no options at all to a source in Python when it reads
the table. So the options go where Spark keeps them: into the metadata of the first column. That works where Spark asks us for the columns;
`CREATE TABLE orders (value binary) USING …` does not ask, and has to be read `WITH (subscribe = 'orders')`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

METADATA: Final = "bowstring.options"
_TABLE: Final = "provider"
"""A property that every table has, and no read."""
_OPTION: Final = "option."
"""How the properties of a table name its options."""


def own(given: Mapping[str, str]) -> dict[str, str]:
    """The options without what Spark adds for a table."""
    if not is_table(given):
        return dict(given)
    return {name.removeprefix(_OPTION): value for name, value in given.items() if name.startswith(_OPTION)}


def is_table(given: Mapping[str, str]) -> bool:
    return _TABLE in given


def remembering(schema: StructType, given: Mapping[str, str]) -> StructType:
    """The same columns with the options of their table, apart from its login: what is in a schema gets around."""
    first = schema.fields[0]
    kept = json.dumps({name: value for name, value in own(given).items() if name.lower() != "token"})
    return StructType([StructField(first.name, first.dataType, first.nullable, {METADATA: kept}), *schema.fields[1:]])


def recalled(schema: StructType) -> dict[str, str]:
    """The options of the table that the columns are from."""
    kept: dict[str, str] = json.loads(next((field.metadata[METADATA] for field in schema.fields if METADATA in field.metadata), "{}"))
    return kept
