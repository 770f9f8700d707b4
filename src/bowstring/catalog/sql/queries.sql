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
UPDATE topic SET deleted = :deleted WHERE id = :id AND deleted IS NULL
RETURNING id;
