"""The catalog of the embedded broker: SQLite, on a file that `file` opens; an ephemeral broker has the same one on `:memory:`.

`catalog` implements the port, `extents` is its part for edits. The SQL is in `sql/`, numbered migrations and named queries, read by
`queries`. For operators: `copy` copies a catalog that is in use; offline, `offline` looks at every row for itself, `repair` replaces
damaged ones, and `fresh` lets a restored catalog live on as another.
"""
