"""Backups of a data directory, made while a broker serves it or not, and restoring.

A backup is a directory with a copy of the catalog, the segments that it refers to, and a manifest,
which is written last: without it the directory is not a backup. `making` makes one from a directory
and a copy of its catalog, `archive` does so for a broker that serves, `manifest` describes a
backup, `restoring` makes a data directory from it. A backup never grows: the next one goes to
another directory.
"""
