"""Backups of a data directory, made while it is served or not, and what is made of them again.

A backup is a directory with a copy of the catalog, the segments that it refers to, and a manifest, which is written last: where there is
none there is no backup. `making` makes one from a directory and a copy of its catalog, `archive` does so for a broker that serves,
`manifest` is what a backup says of itself, `restoring` makes a data directory of it. Nothing is added to a backup later: the next one
goes to another directory.
"""
