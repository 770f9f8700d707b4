-- The second format: what the journal said moves into rows that stay, and then the journal is trimmed.

-- One row per extent: sealed pages of a partition that follow each other. `crc` is the CRC-32C of everything else in the row, `uses`
-- included: pairs of a segment and the bytes in it, 8 bytes little-endian each. `total` is the sum of the five numbers that
-- `sealed` looks at. A query that adds up a million rows cannot reckon their CRCs, but it can add these, too, and one flipped bit in any
-- of them shows.
CREATE TABLE extent (
    topic          INTEGER NOT NULL,
    partition      INTEGER NOT NULL,
    first_offset   INTEGER NOT NULL,
    end_offset     INTEGER NOT NULL,
    bytes          INTEGER NOT NULL,
    total          INTEGER NOT NULL,
    arrived_first  INTEGER NOT NULL,
    arrived_last   INTEGER NOT NULL,
    expires        INTEGER NOT NULL,
    pages          INTEGER NOT NULL,
    index_segment  INTEGER NOT NULL,
    index_position INTEGER NOT NULL,
    index_length   INTEGER NOT NULL,
    index_sequence INTEGER NOT NULL,
    ids_segment    INTEGER,
    ids_position   INTEGER,
    ids_length     INTEGER,
    ids_sequence   INTEGER,
    uses           BLOB NOT NULL,
    crc            INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, first_offset)
) STRICT, WITHOUT ROWID;

-- `extent.uses` once more, turned round: by segment. What a segment still holds is the sum of these rows, and is kept nowhere else.
-- `total` is the sum of the five numbers before it.
CREATE TABLE segment_use (
    segment      INTEGER NOT NULL,
    topic        INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    total        INTEGER NOT NULL,
    PRIMARY KEY (segment, topic, partition, first_offset)
) STRICT, WITHOUT ROWID;

-- A partition as it was after the flush `sequence`. `crc` is the CRC-32C of the other values.
CREATE TABLE snapshot (
    topic     INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    crc       INTEGER NOT NULL,
    state     BLOB NOT NULL,
    UNIQUE (topic, partition)
) STRICT;

-- The deletions of 2^20 offsets. `crc` is the CRC-32C of the other values.
CREATE TABLE chunk (
    topic     INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    crc       INTEGER NOT NULL,
    bitmaps   BLOB NOT NULL,
    UNIQUE (topic, partition, number)
) STRICT;

-- The journal's last sequence when the topic was deleted. A tombstone is needed for as long as rows are left that may speak of the
-- topic. Of those that there are already nobody knows how old they are: they count as if they were made now.
ALTER TABLE topic ADD COLUMN deleted_after INTEGER;

UPDATE topic SET deleted_after = coalesce((SELECT max(sequence) FROM journal), 0) WHERE deleted IS NOT NULL;

CREATE INDEX tombstone ON topic (deleted_after) WHERE deleted IS NOT NULL;
