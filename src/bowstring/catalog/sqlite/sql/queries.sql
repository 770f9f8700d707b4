-- What the SQLite catalog asks. A query begins at its `-- name:` line; times come in as arguments, never from the database's clock.

-- name: cluster
SELECT id FROM cluster;

-- name: other_broker
SELECT number FROM broker WHERE number <> :broker;

-- name: register
INSERT INTO broker (number, epoch) VALUES (:broker, 1)
ON CONFLICT (number) DO UPDATE SET epoch = epoch + 1
RETURNING epoch;

-- name: last_sequence
SELECT coalesce(max(sequence), 0) FROM journal;

-- name: trimmed
SELECT coalesce(min(sequence) - 1, 0) FROM journal;

-- name: epoch
SELECT epoch FROM broker WHERE number = :broker;

-- The whole commit: it stores the row, or nothing if the epoch was raised or the row before is not the last one.
-- name: commit
INSERT INTO journal (sequence, epoch, crc, changes, pages)
SELECT :sequence, :epoch, :crc, :changes, :pages
WHERE (SELECT epoch FROM broker WHERE number = :broker) = :epoch
  AND coalesce((SELECT max(sequence) FROM journal), 0) = :sequence - 1;

-- Asked only after a commit that stored nothing: is it because the very same row is there already?
-- name: landed
SELECT 1 FROM journal
WHERE sequence = :sequence AND epoch = :epoch AND crc = :crc AND changes = :changes AND pages IS :pages;

-- name: journal
SELECT sequence, epoch, crc, changes, length(pages) FROM journal
WHERE sequence > :after
ORDER BY sequence
LIMIT :rows_max;

-- name: topics
SELECT id, name, partitions, created, settings, deleted FROM topic ORDER BY id;

-- name: live_topic
SELECT id FROM topic WHERE name = :name AND deleted IS NULL;

-- name: create_topic
INSERT INTO topic (name, partitions, created, settings) VALUES (:name, :partitions, :created, :settings)
RETURNING id;

-- name: delete_topic
UPDATE topic SET deleted = :deleted, deleted_after = coalesce((SELECT max(sequence) FROM journal), 0)
WHERE id = :id AND deleted IS NULL
RETURNING id;

-- name: alter_topic
UPDATE topic SET settings = :settings WHERE id = :id AND deleted IS NULL
RETURNING id;

-- name: is_live
SELECT 1 FROM topic WHERE id = :id AND deleted IS NULL;

-- name: trim
DELETE FROM journal WHERE sequence <= :trim AND sequence < (SELECT max(sequence) FROM journal);

-- A tombstone goes when no journal row can speak of its topic any more, and nothing else is left of it. Up to 3 flushes may have been
-- under way at the deletion; 10 is more than that.
-- name: trim_tombstones
DELETE FROM topic
WHERE deleted IS NOT NULL
  AND deleted_after <= (SELECT min(sequence) FROM journal) - 10
  AND NOT EXISTS (SELECT 1 FROM extent WHERE topic = topic.id)
  AND NOT EXISTS (SELECT 1 FROM snapshot WHERE topic = topic.id)
  AND NOT EXISTS (SELECT 1 FROM chunk WHERE topic = topic.id);

-- ---- extents: the columns are in the order of extents.COLUMNS ------------------------------------------------------

-- Where the one ends that would be overlapped, if any is: extents of a partition do not overlap, so only the last one that begins before
-- this one's end can. It is asked apart from the insertion: an INSERT that reads its own table makes a table beside it, and takes 5
-- times as long.
-- name: end_before
SELECT end_offset FROM extent
WHERE topic = :topic AND partition = :partition AND first_offset < :end_offset
ORDER BY first_offset DESC
LIMIT 1;

-- name: add_extent
INSERT INTO extent VALUES (
    :topic, :partition, :first_offset, :end_offset, :bytes, :total, :arrived_first, :arrived_last, :expires, :pages,
    :index_segment, :index_position, :index_length, :index_sequence, :ids_segment, :ids_position, :ids_length, :ids_sequence,
    :uses, :crc
);

-- name: drop_extent
DELETE FROM extent WHERE topic = :topic AND partition = :partition AND first_offset = :first_offset;

-- name: extent
SELECT * FROM extent WHERE topic = :topic AND partition = :partition AND first_offset = :first_offset;

-- From the one that begins at the offset or last before it: whether that ends after the offset is looked at once it is verified.
-- name: extents
SELECT * FROM extent
WHERE topic = :topic AND partition = :partition AND first_offset >= coalesce((
    SELECT max(first_offset) FROM extent WHERE topic = :topic AND partition = :partition AND first_offset <= :offset
), :offset)
ORDER BY first_offset
LIMIT :rows_max;

-- name: extents_of_topic
SELECT * FROM extent WHERE topic = :topic LIMIT :rows_max;

-- name: extents_in
SELECT used.topic, used.partition, used.first_offset, extent.*
FROM segment_use AS used LEFT JOIN extent USING (topic, partition, first_offset)
WHERE used.segment = :segment AND (used.topic, used.partition, used.first_offset) > (:topic, :partition, :first_offset)
ORDER BY used.topic, used.partition, used.first_offset
LIMIT :rows_max;

-- name: sealed
SELECT topic, partition, max(end_offset), sum(bytes),
       sum(total <> topic + partition + first_offset + end_offset + bytes)
FROM extent
GROUP BY topic, partition;

-- Asked only after `sealed` has found one.
-- name: extent_that_does_not_add_up
SELECT topic, partition, first_offset FROM extent
WHERE total <> topic + partition + first_offset + end_offset + bytes
LIMIT 1;

-- name: add_use
INSERT INTO segment_use VALUES (:segment, :topic, :partition, :first_offset, :bytes, :total);

-- name: drop_use
DELETE FROM segment_use
WHERE segment = :segment AND topic = :topic AND partition = :partition AND first_offset = :first_offset;

-- The way without knowing the segments, through the whole table: only for an extent that is damaged.
-- name: drop_uses
DELETE FROM segment_use WHERE topic = :topic AND partition = :partition AND first_offset = :first_offset;

-- name: usage
SELECT segment, sum(bytes), sum(total <> segment + topic + partition + first_offset + bytes) FROM segment_use GROUP BY segment;

-- Asked only after `usage` has found one.
-- name: use_that_does_not_add_up
SELECT topic, partition, first_offset FROM segment_use
WHERE total <> segment + topic + partition + first_offset + bytes
LIMIT 1;

-- ---- snapshots and chunks ---------------------------------------------------------------------------------------------

-- name: store_snapshot
INSERT INTO snapshot (topic, partition, sequence, crc, state) VALUES (:topic, :partition, :sequence, :crc, :state)
ON CONFLICT (topic, partition) DO UPDATE SET sequence = excluded.sequence, crc = excluded.crc, state = excluded.state
WHERE snapshot.sequence <= excluded.sequence;

-- name: snapshots
SELECT topic, partition, sequence, crc, state FROM snapshot;

-- name: store_chunk
INSERT INTO chunk (topic, partition, number, crc, bitmaps) VALUES (:topic, :partition, :number, :crc, :bitmaps)
ON CONFLICT (topic, partition, number) DO UPDATE SET crc = excluded.crc, bitmaps = excluded.bitmaps;

-- name: drop_chunk
DELETE FROM chunk WHERE topic = :topic AND partition = :partition AND number = :number;

-- name: chunks
SELECT topic, partition, number, crc, bitmaps FROM chunk;

-- name: forget_snapshots
DELETE FROM snapshot WHERE rowid IN (SELECT rowid FROM snapshot WHERE topic = :topic LIMIT :rows_max);

-- name: forget_chunks
DELETE FROM chunk WHERE rowid IN (SELECT rowid FROM chunk WHERE topic = :topic LIMIT :rows_max);

-- name: anything_left
SELECT EXISTS (SELECT 1 FROM extent WHERE topic = :topic)
    OR EXISTS (SELECT 1 FROM snapshot WHERE topic = :topic)
    OR EXISTS (SELECT 1 FROM chunk WHERE topic = :topic);
