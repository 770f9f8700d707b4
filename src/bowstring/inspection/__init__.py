"""Inspects a data directory that no broker serves: its contents, whether it is whole, and how to
repair it.

`directory` is the directory as files; `contents` what its catalog says, as the broker would load
it; `verifying` reads everything and names damage, with `structure` for parts that do not fit
together; `overview` and `segment` are for people; `repairing` puts aside the damage that keeps a
broker from starting. Only `repairing` writes.
"""
