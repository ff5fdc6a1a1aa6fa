-- name: every
-- Those of a kind, by name.
SELECT kind, name, data, revision FROM documents WHERE kind = ? ORDER BY name;

-- name: some
-- Those of a kind with one of some names (JSON), by name.
SELECT kind, name, data, revision FROM documents
WHERE kind = ? AND name IN (SELECT value FROM json_each(?)) ORDER BY name;

-- name: create
-- Where there is none.
INSERT OR IGNORE INTO documents (kind, name, data, revision) VALUES (?, ?, ?, ?);

-- name: replace
-- Where it is the one that the writer knows.
UPDATE documents SET data = ?, revision = ? WHERE kind = ? AND name = ? AND revision = ?;

-- name: delete
-- Likewise.
DELETE FROM documents WHERE kind = ? AND name = ? AND revision = ?;

-- name: exists
-- Whether there is one.
SELECT 1 FROM documents WHERE kind = ? AND name = ?;
