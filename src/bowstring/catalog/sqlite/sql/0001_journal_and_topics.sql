-- The first format: who may commit, what was committed, and the topics.

-- One row: a SQLite file belongs to one broker number. Whoever starts raises the epoch, and with that fences whoever was before.
CREATE TABLE broker (
    number INTEGER PRIMARY KEY,
    epoch  INTEGER NOT NULL
) STRICT;

-- One row: 16 bytes that name the data, so that a client can tell a broker that was restarted from another one.
CREATE TABLE cluster (
    id BLOB NOT NULL
) STRICT;

INSERT INTO cluster (id) VALUES (randomblob(16));

-- One row per flush, dense from 1; the last one is never removed, so it says which sequence is next and no counter needs writing.
-- The large columns are last, so that reading the others never walks through their overflow pages. `crc` is the CRC-32C of the row
-- without the bytes of `pages`: each of those frames has its own.
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    crc      INTEGER NOT NULL,
    changes  BLOB NOT NULL,
    pages    BLOB
) STRICT;

-- A deleted topic stays as a tombstone. AUTOINCREMENT, so that its id is not given again even if its row should ever go.
CREATE TABLE topic (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    created    INTEGER NOT NULL,
    settings   BLOB NOT NULL,
    deleted    INTEGER
) STRICT;

CREATE UNIQUE INDEX topic_by_name ON topic (name) WHERE deleted IS NULL;
