"""Pages at rest: framed and verified (`frames`), in memory (`memory`) or in segments on a local disk (`local`).

`local` is the store over the disk port; what it decides without touching anything is in `segments` (names, ids, sizes, which free
file is reused) and `spans` (which references are read in one go), what it keeps is in `supply` (empty segments, made before they are
needed), `orphans` (segments that somebody may miss) and `handles` (open files and who reads in them). `reserve` keeps a little space for
the catalog.
"""
