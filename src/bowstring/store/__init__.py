"""Pages at rest: framed and verified (`frames`), in memory (`memory`) or in segments on a local
disk (`local`).

`local` is the store over the disk port. Its pure decisions are in `segments` (names, ids, sizes,
which free file is reused) and `spans` (which references are read together), its state is in
`supply` (empty segments, made before they are needed), `orphans` (segments that may still be
needed) and `handles` (open files and their readers). `reserve` keeps a little space for the
catalog.
"""
