"""The catalog: brokers, topics, and each broker's journal, whose row is what makes a flush true, with what stays of it when it is trimmed.

`sqlite` is the package of the embedded broker's catalog. `journal_rows`, `extent_rows` and `state_rows` are what every catalog does to
a row, whatever database keeps it: its values, and its checksum; `second_format` reads rows as they were before. What a catalog must
hold is in `tests/contract` (`catalog_contract` and its neighbours), for this one and for PostgreSQL later.
"""
