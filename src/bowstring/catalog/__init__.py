"""The catalog: topics, epochs, the journal, whose row is what makes a flush true, and what stays of it when it is trimmed.

`sqlite` is the package of the embedded broker's catalog. `journal_rows` and `extent_rows` are what every catalog does to a row,
whatever database keeps it: its values, and its checksum. What a catalog must hold is in `tests/contract` (`catalog_contract`,
`edit_contract`, `topic_contract`), for this one and for PostgreSQL later.
"""
