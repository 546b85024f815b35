-- Tables of a new file, as the migrations leave them.

CREATE TABLE tool_changes (
  id INTEGER PRIMARY KEY,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  old_hash TEXT,
  new_hash TEXT,
  changed_at INTEGER NOT NULL,
  definition TEXT NOT NULL DEFAULT 'tool'
);
CREATE INDEX idx_tool_changes_tool ON tool_changes (server_name, tool_name);
CREATE INDEX idx_tool_changes_definition ON tool_changes (definition, id);

CREATE TABLE tool_schemas (
  server_name TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  definitions TEXT NOT NULL,
  saved_at INTEGER NOT NULL
);

CREATE TABLE tool_schema_hashes (
  server_name TEXT NOT NULL,
  definition TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  schema_hash TEXT NOT NULL,
  last_checked_at INTEGER NOT NULL,
  UNIQUE (server_name, definition, tool_name)
);

CREATE TABLE tool_embeddings (
  id INTEGER PRIMARY KEY,
  backend_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  tool_description TEXT NOT NULL,
  description_hash BLOB NOT NULL,
  embedding BLOB NOT NULL,
  dimensions INTEGER NOT NULL,
  model_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (backend_id, tool_name, model_id)
);
CREATE INDEX idx_tool_embeddings_backend ON tool_embeddings (backend_id);
CREATE INDEX idx_tool_embeddings_hash ON tool_embeddings (description_hash);

CREATE TABLE embedding_canaries (
  model_id TEXT NOT NULL,
  revision TEXT NOT NULL,
  vector BLOB NOT NULL,
  dimensions INTEGER NOT NULL,
  UNIQUE (model_id, revision)
);
