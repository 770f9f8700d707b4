-- The third format: a broker is a number among several, and there is one kind of row for state.

-- Epochs come from one counter, so that no two incarnations of any brokers have the same.
ALTER TABLE cluster ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

UPDATE cluster SET epoch = coalesce((SELECT max(epoch) FROM broker), 0);

-- A journal position is (broker, sequence), as one number: (broker - 1) * 2^48 + sequence. The rows of broker 1 have the key that they
-- had, so nothing is copied here, and their checksums hold.
ALTER TABLE journal RENAME COLUMN sequence TO position;

-- Who owns a partition. Those of a tombstone stay with it.
CREATE TABLE partition (
    topic  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    broker INTEGER NOT NULL,
    PRIMARY KEY (topic, number)
) STRICT, WITHOUT ROWID;

INSERT INTO partition (topic, number, broker)
WITH RECURSIVE numbered (topic, number, count) AS (
    SELECT id, 0, partitions FROM topic WHERE partitions > 0
    UNION ALL
    SELECT topic, number + 1, count FROM numbered WHERE number + 1 < count
)
SELECT topic, number, 1 FROM numbered;

DROP INDEX tombstone;

-- A deleted topic, and for each broker whose journal may speak of it the last sequence when it was deleted.
CREATE TABLE tombstone (
    topic    INTEGER NOT NULL,
    broker   INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (topic, broker)
) STRICT, WITHOUT ROWID;

INSERT INTO tombstone (topic, broker, sequence) SELECT id, 1, coalesce(deleted_after, 0) FROM topic WHERE deleted IS NOT NULL;

ALTER TABLE topic DROP COLUMN deleted_after;

CREATE INDEX deleted_topic ON topic (deleted) WHERE deleted IS NOT NULL;

-- Part of a machine's state as of a journal position: part 0 is the head, parts from 1 on are chunks. `crc` is the CRC-32C of the
-- other values but `total`, which is the sum of the five numbers before it: it shows a changed key to a broker that does not own the row.
CREATE TABLE state (
    topic     INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    machine   TEXT NOT NULL,
    part      INTEGER NOT NULL,
    broker    INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    total     INTEGER NOT NULL,
    crc       INTEGER NOT NULL,
    state     BLOB NOT NULL,
    UNIQUE (topic, partition, machine, part)
) STRICT;

-- The functions are those of `upgrade.py`. A row that did not verify before does not verify afterwards.
INSERT INTO state (topic, partition, machine, part, broker, sequence, total, crc, state)
SELECT topic, partition, 'partition', 0, 1, sequence, topic + partition + 1 + sequence,
       snapshot_crc(topic, partition, sequence, crc, state), state
FROM snapshot;

-- A chunk that is not written with a snapshot had not changed before it: it is as of that snapshot.
INSERT INTO state (topic, partition, machine, part, broker, sequence, total, crc, state)
SELECT topic, partition, 'deletions', number + 1, 1, coalesce(sequence, 0), topic + partition + number + 2 + coalesce(sequence, 0),
       chunk_crc(topic, partition, number, chunk.crc, bitmaps, coalesce(sequence, 0)), bitmaps
FROM chunk LEFT JOIN snapshot USING (topic, partition);

DROP TABLE snapshot;
DROP TABLE chunk;

-- An extent has a list of sections by kind, and remembers whose journal their sequences are of. `crc` is the CRC-32C of everything else in
-- the row: numbers, `sections` (a MessagePack array of arrays: kind, segment, position, length, sequence), `uses` (pairs of a segment and
-- the bytes in it, 8 bytes little-endian each). `total` is, as before, the sum of the five numbers that `sealed` looks at.
ALTER TABLE extent RENAME TO extent_before;

CREATE TABLE extent (
    topic         INTEGER NOT NULL,
    partition     INTEGER NOT NULL,
    first_offset  INTEGER NOT NULL,
    end_offset    INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    total         INTEGER NOT NULL,
    arrived_first INTEGER NOT NULL,
    arrived_last  INTEGER NOT NULL,
    expires       INTEGER NOT NULL,
    pages         INTEGER NOT NULL,
    broker        INTEGER NOT NULL,
    sections      BLOB NOT NULL,
    uses          BLOB NOT NULL,
    crc           INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, first_offset)
) STRICT, WITHOUT ROWID;

INSERT INTO extent
SELECT topic, partition, first_offset, end_offset, bytes, total, arrived_first, arrived_last, expires, pages, 1,
       extent_sections(
           index_segment, index_position, index_length, index_sequence, ids_segment, ids_position, ids_length, ids_sequence
       ),
       uses,
       extent_crc(
           topic, partition, first_offset, end_offset, bytes, total, arrived_first, arrived_last, expires, pages,
           index_segment, index_position, index_length, index_sequence, ids_segment, ids_position, ids_length, ids_sequence,
           uses, crc
       )
FROM extent_before;

DROP TABLE extent_before;
