"""The catalog: brokers, topics, and each broker's journal, whose rows are the commits of flushes,
with the rows that outlive it.

`sqlite` is the package of the embedded broker's catalog. `journal_rows`, `extent_rows` and
`state_rows` define the values and checksums of rows for every database; `second_format` reads rows
of the format before. `tests/contract` (`catalog_contract` and its neighbours) has the contract of a
catalog, for this one and for PostgreSQL later.
"""
