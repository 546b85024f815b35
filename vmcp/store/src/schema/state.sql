-- Tables of a new file, as the migrations leave them.

CREATE TABLE tool_metrics (
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  call_count INTEGER NOT NULL,
  success_count INTEGER NOT NULL,
  failure_count INTEGER NOT NULL,
  avg_latency_ms REAL NOT NULL,
  recent_latency_ms REAL NOT NULL,
  recent_success_rate REAL NOT NULL,
  last_called_at INTEGER NOT NULL,
  last_success_at INTEGER,
  last_error TEXT,
  last_error_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX idx_tool_metrics_tool ON tool_metrics (server_name, tool_name);
CREATE INDEX idx_tool_metrics_last_called ON tool_metrics (last_called_at);

CREATE TABLE tool_calls (
  id INTEGER PRIMARY KEY,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  called_at INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  latency_ms REAL NOT NULL
);
CREATE INDEX idx_tool_calls_called ON tool_calls (called_at);

CREATE TABLE tool_metrics_daily (
  day INTEGER NOT NULL,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  call_count INTEGER NOT NULL,
  success_count INTEGER NOT NULL,
  failure_count INTEGER NOT NULL,
  avg_latency_ms REAL NOT NULL,
  UNIQUE (server_name, tool_name, day)
);

CREATE TABLE tool_baselines (
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  hash TEXT NOT NULL,
  definition TEXT NOT NULL,
  trusted_at INTEGER NOT NULL,
  approved_at INTEGER NOT NULL DEFAULT 0,
  UNIQUE (server_name, tool_name)
);

CREATE TABLE tool_drift (
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  before_definition TEXT NOT NULL,
  after_definition TEXT NOT NULL,
  after_hash TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  state TEXT NOT NULL,
  UNIQUE (server_name, tool_name)
);

CREATE TABLE dynamic_entries (
  id TEXT PRIMARY KEY,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  model_id TEXT NOT NULL,
  vector BLOB NOT NULL,
  query TEXT,
  confidence REAL NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  corrects INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  owner BLOB NOT NULL,
  request BLOB NOT NULL,
  process BLOB NOT NULL,
  lease_until INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  state TEXT NOT NULL
);
CREATE INDEX idx_runs_request ON runs (owner, request);
CREATE INDEX idx_runs_expires ON runs (expires_at);

CREATE TABLE used_answers (
  digest BLOB PRIMARY KEY,
  expires_at INTEGER NOT NULL
);
CREATE INDEX idx_used_answers_expires ON used_answers (expires_at);

CREATE TABLE observed_shapes (
  server_name TEXT NOT NULL,
  hash TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  calls INTEGER NOT NULL,
  shape TEXT NOT NULL,
  last_at INTEGER NOT NULL,
  UNIQUE (server_name, hash)
);

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  owner BLOB NOT NULL,
  external_id TEXT NOT NULL,
  machine_id TEXT NOT NULL,
  source TEXT NOT NULL,
  project_id TEXT NOT NULL,
  title TEXT,
  status TEXT NOT NULL,
  parent_session_id TEXT,
  summary TEXT,
  cwd TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (owner, machine_id, source, external_id)
);
CREATE INDEX idx_sessions_owner ON sessions (owner, updated_at);
CREATE INDEX idx_sessions_updated ON sessions (updated_at);
CREATE INDEX idx_sessions_external ON sessions (external_id);

CREATE TABLE session_events (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  type TEXT NOT NULL,
  detail TEXT,
  at INTEGER NOT NULL
);
CREATE INDEX idx_session_events ON session_events (session_id, id);

CREATE TABLE session_store (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  machine_id TEXT NOT NULL
);

CREATE TABLE searches (
  id INTEGER PRIMARY KEY,
  searched_at INTEGER NOT NULL,
  owner TEXT,
  query TEXT NOT NULL,
  keywords TEXT NOT NULL,
  found TEXT NOT NULL
);
CREATE INDEX idx_searches_searched ON searches (searched_at);

CREATE TABLE search_calls (
  id INTEGER PRIMARY KEY,
  search_id INTEGER NOT NULL,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  rank INTEGER
);
CREATE INDEX idx_search_calls_search ON search_calls (search_id);

CREATE TABLE unsearched_calls (
  day INTEGER NOT NULL,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  calls INTEGER NOT NULL,
  UNIQUE (server_name, tool_name, day)
);

CREATE TABLE tool_sequels (
  owner TEXT NOT NULL,
  server_name TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  sessions INTEGER NOT NULL,
  next TEXT NOT NULL,
  last_at INTEGER NOT NULL,
  UNIQUE (owner, server_name, tool_name)
);
CREATE INDEX idx_tool_sequels_last ON tool_sequels (last_at);

CREATE TABLE search_days (
  day INTEGER PRIMARY KEY,
  searches INTEGER NOT NULL,
  without_result INTEGER NOT NULL,
  without_call INTEGER NOT NULL,
  tokens_saved INTEGER NOT NULL
);
