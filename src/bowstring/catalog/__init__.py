"""The catalog: topics, epochs, the journal, whose row is what makes a flush true, and what of it stays when it is trimmed.

`sqlite` is the catalog of the embedded broker, on the file that `sqlite_file` opens; an ephemeral broker has the same one on
`:memory:`. `sqlite_extents` is its part for edits: extents, snapshots and chunks. The SQL is in `sql/`, numbered migrations and named
queries, read by `queries`. `rows` and `extents` are what every catalog does to a row whatever database keeps it: its values, and its
checksum. What a catalog must hold is in `tests/contract` (`catalog_contract`, `edit_contract`, `topic_contract`), for this one and for
PostgreSQL later.

For operators: `sqlite_copying` copies a catalog that is in use; offline, `sqlite_reading` looks at every row for itself,
`sqlite_mending` replaces damaged ones, and `sqlite_anew` lets a restored catalog live on as another.
"""
