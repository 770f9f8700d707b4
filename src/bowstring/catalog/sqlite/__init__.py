"""The catalog of the embedded broker: SQLite, on a file that `file` opens; an ephemeral broker has the same one on `:memory:`.

`catalog` implements the port that brokers share and `journal` that of each one, both on a `database`; `extents` is the part for edits.
The SQL is in `sql/`, numbered migrations and named queries, read by `queries`; `upgrade` has what migrations need beside SQL. For
operators: `copy` copies a catalog that is in use; offline, `offline` looks at every row for itself, `repair` replaces
damaged ones, and `fresh` lets a restored catalog live on as another.
"""
