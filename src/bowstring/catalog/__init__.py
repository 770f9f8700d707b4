"""The catalog: topics, epochs, and the journal, whose row is what makes a flush true.

`sqlite` is the catalog of the embedded broker, on the file that `sqlite_file` opens; an ephemeral broker has the same one on
`:memory:`. The SQL is in `sql/`, numbered migrations and named queries, read by `queries`. `rows` is what every catalog does to a
journal row whatever database keeps it: its checksum, and its inlined pages. What a catalog must hold is in
`tests/contract/catalog_contract.py`, for this one and for PostgreSQL later.
"""
