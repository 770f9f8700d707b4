-- What the SQLite catalog asks. A query begins at its `-- name:` line; times come in as arguments, never from the database's clock.

-- name: cluster
SELECT id FROM cluster;

-- name: next_epoch
UPDATE cluster SET epoch = epoch + 1 RETURNING epoch;

-- name: register
INSERT INTO broker (number, epoch) VALUES (:broker, :epoch)
ON CONFLICT (number) DO UPDATE SET epoch = excluded.epoch;

-- name: epoch
SELECT epoch FROM broker WHERE number = :broker;

-- ---- the journal: a broker has the positions from :first, where no row is, to :last --------------------------------

-- name: last_position
SELECT coalesce((SELECT position FROM journal WHERE position BETWEEN :first AND :last ORDER BY position DESC LIMIT 1), :first);

-- name: first_position
SELECT position FROM journal WHERE position BETWEEN :first AND :last ORDER BY position LIMIT 1;

-- The whole commit: it stores the row, or nothing if the epoch was raised or the row before is not the last one.
-- name: commit
INSERT INTO journal (position, epoch, crc, changes, pages)
SELECT :position, :epoch, :crc, :changes, :pages
WHERE (SELECT epoch FROM broker WHERE number = :broker) = :epoch
  AND coalesce((
    SELECT position FROM journal WHERE position BETWEEN :first AND :last ORDER BY position DESC LIMIT 1
  ), :first) = :position - 1;

-- Asked only after a commit that stored nothing: is it because the very same row is there already?
-- name: landed
SELECT 1 FROM journal
WHERE position = :position AND epoch = :epoch AND crc = :crc AND changes = :changes AND pages IS :pages;

-- name: rows
SELECT position, epoch, crc, changes, length(pages) FROM journal
WHERE position > :after AND position <= :last
ORDER BY position
LIMIT :rows_max;

-- name: trim
DELETE FROM journal
WHERE position BETWEEN :first AND :trim
  AND position < (SELECT position FROM journal WHERE position BETWEEN :first AND :last ORDER BY position DESC LIMIT 1);

-- ---- topics and partitions -----------------------------------------------------------------------------------------

-- name: topics
SELECT id, name, partitions, created, settings, deleted FROM topic ORDER BY id;

-- name: live_topic
SELECT id FROM topic WHERE name = :name AND deleted IS NULL;

-- name: create_topic
INSERT INTO topic (name, partitions, created, settings) VALUES (:name, :partitions, :created, :settings)
RETURNING id;

-- name: create_partition
INSERT INTO partition (topic, number, broker) VALUES (:topic, :number, :broker);

-- name: partitions_of
SELECT partitions FROM topic WHERE id = :id AND deleted IS NULL;

-- name: partitions
SELECT topic, number, broker FROM partition WHERE :broker IS NULL OR broker = :broker ORDER BY topic, number;

-- name: owner
SELECT broker FROM partition WHERE topic = :topic AND number = :partition;

-- name: delete_topic
UPDATE topic SET deleted = :deleted WHERE id = :id AND deleted IS NULL
RETURNING id;

-- For each broker whose journal may speak of the topic: it has rows, or owns a partition and may have some under way.
-- name: bury
INSERT INTO tombstone (topic, broker, sequence)
SELECT :id, number, coalesce(last & 0xffffffffffff, 0)
FROM (
    SELECT number, (
        SELECT position FROM journal
        WHERE position > (number - 1) << 48 AND position < number << 48
        ORDER BY position DESC LIMIT 1
    ) AS last
    FROM broker
)
WHERE last IS NOT NULL OR number IN (SELECT broker FROM partition WHERE topic = :id);

-- name: alter_topic
UPDATE topic SET settings = :settings WHERE id = :id AND deleted IS NULL
RETURNING id;

-- name: is_live
SELECT 1 FROM topic WHERE id = :id AND deleted IS NULL;

-- A tombstone goes when no journal row can speak of its topic any more, and nothing else is left of it. Up to 3 flushes may have been
-- under way at the deletion; 10 is more than that.
-- name: tombstones_to_go
SELECT id FROM topic
WHERE deleted IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM tombstone
    WHERE tombstone.topic = topic.id AND sequence > coalesce((
        SELECT position & 0xffffffffffff FROM journal
        WHERE position > (tombstone.broker - 1) << 48 AND position < tombstone.broker << 48
        ORDER BY position LIMIT 1
    ), 0) - 10
  )
  AND NOT EXISTS (SELECT 1 FROM extent WHERE topic = topic.id)
  AND NOT EXISTS (SELECT 1 FROM state WHERE topic = topic.id);

-- name: drop_topic
DELETE FROM topic WHERE id = :topic;

-- name: drop_partitions
DELETE FROM partition WHERE topic = :topic;

-- name: drop_tombstone
DELETE FROM tombstone WHERE topic = :topic;

-- ---- extents: the columns are in the order of extent_rows.COLUMNS --------------------------------------------------
--
-- What is asked for a broker leaves out what another one owns, and nothing else: a row whose partition nobody knows, or whose numbers do
-- not add up, is looked at whoever asks. Else one flipped bit in its key would make it disappear.

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
    :broker, :sections, :uses, :crc
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
SELECT extent.* FROM partition CROSS JOIN extent ON extent.topic = partition.topic AND extent.partition = partition.number
WHERE partition.topic = :topic AND partition.broker = :broker
LIMIT :rows_max;

-- name: extents_in
SELECT used.topic, used.partition, used.first_offset, extent.*
FROM segment_use AS used
LEFT JOIN partition ON partition.topic = used.topic AND partition.number = used.partition
LEFT JOIN extent ON extent.topic = used.topic AND extent.partition = used.partition AND extent.first_offset = used.first_offset
WHERE used.segment = :segment AND (used.topic, used.partition, used.first_offset) > (:topic, :partition, :first_offset)
  AND (coalesce(partition.broker, :broker) = :broker
       OR used.total <> used.segment + used.topic + used.partition + used.first_offset + used.bytes)
ORDER BY used.topic, used.partition, used.first_offset
LIMIT :rows_max;

-- name: sealed
SELECT topic, partition, max(end_offset), sum(bytes), min(first_offset), min(arrived_first), coalesce(min(nullif(expires, 0)), 0),
       sum(total <> topic + partition + first_offset + end_offset + bytes),
       coalesce((SELECT owned.broker FROM partition AS owned WHERE owned.topic = extent.topic AND owned.number = partition), :broker)
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
SELECT segment, sum(bytes) FILTER (WHERE coalesce(owned.broker, :broker) = :broker),
       sum(total <> segment + used.topic + partition + first_offset + bytes)
FROM segment_use AS used LEFT JOIN partition AS owned ON owned.topic = used.topic AND owned.number = used.partition
GROUP BY segment;

-- Asked only after `usage` has found one.
-- name: use_that_does_not_add_up
SELECT topic, partition, first_offset FROM segment_use
WHERE total <> segment + topic + partition + first_offset + bytes
LIMIT 1;

-- ---- states -----------------------------------------------------------------------------------------------------------

-- An older one never takes the place of a newer one; of two brokers' journals nobody can say which is later.
-- name: store_state
INSERT INTO state (topic, partition, machine, part, broker, sequence, total, crc, state)
VALUES (:topic, :partition, :machine, :part, :broker, :sequence, :total, :crc, :state)
ON CONFLICT (topic, partition, machine, part) DO UPDATE
SET broker = excluded.broker, sequence = excluded.sequence, total = excluded.total, crc = excluded.crc, state = excluded.state
WHERE state.broker <> excluded.broker OR state.sequence <= excluded.sequence;

-- name: drop_state
DELETE FROM state
WHERE topic = :topic AND partition = :partition AND machine = :machine AND part = :part
  AND (broker <> :broker OR sequence <= :sequence);

-- name: state
SELECT broker, sequence FROM state WHERE topic = :topic AND partition = :partition AND machine = :machine AND part = :part;

-- name: states
SELECT state.topic, partition, machine, part, state.broker, sequence, crc, state
FROM state LEFT JOIN partition AS owned ON owned.topic = state.topic AND owned.number = state.partition
WHERE coalesce(owned.broker, :broker) = :broker OR total <> state.topic + partition + part + state.broker + sequence;

-- name: forget_states
DELETE FROM state WHERE rowid IN (
    SELECT state.rowid FROM partition CROSS JOIN state ON state.topic = partition.topic AND state.partition = partition.number
    WHERE partition.topic = :topic AND partition.broker = :broker
    LIMIT :rows_max
);

-- name: anything_left
SELECT EXISTS (
    SELECT 1 FROM partition WHERE topic = :topic AND broker = :broker AND (
        EXISTS (SELECT 1 FROM extent WHERE extent.topic = partition.topic AND extent.partition = partition.number)
        OR EXISTS (SELECT 1 FROM state WHERE state.topic = partition.topic AND state.partition = partition.number)
    )
);
