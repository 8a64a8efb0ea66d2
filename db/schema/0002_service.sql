-- What the service keeps beside the incidents: how far every source was read and the few lines of it that matter, which incidents are
-- still open, what has to be told to whom, what was told, and which changes helped. All of one batch goes in with one transaction.
-- Unsigned 64-bit values (device, inode, hash) stand as the signed integer of the same bits.

-- One generation of one stream of bytes: a file under one name until it is replaced, a pushed stream, the journal. Changes seldom.
CREATE TABLE watched (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,   -- never given twice: a late writer must not meet another source
  name        TEXT NOT NULL,
  generation  INTEGER NOT NULL,
  job         TEXT NOT NULL,
  attempt     INTEGER NOT NULL,
  node        TEXT NOT NULL,
  rank        INTEGER,
  local_rank  INTEGER,
  device      INTEGER NOT NULL,
  inode       INTEGER NOT NULL,
  ended       INTEGER NOT NULL,       -- 1: gives no more bytes
  UNIQUE (name, generation)
) STRICT;
CREATE INDEX watched_by_job ON watched(job, attempt);
CREATE INDEX watched_ended ON watched(id) WHERE ended = 1;

-- How far it was read. Changes with every batch, so it stands apart: some 60 bytes a row.
CREATE TABLE checkpoint (
  source      INTEGER PRIMARY KEY REFERENCES watched(id) ON DELETE CASCADE,
  offset      INTEGER NOT NULL,
  lines       INTEGER NOT NULL,
  size        INTEGER NOT NULL,
  check_bytes INTEGER NOT NULL,
  check_hash  INTEGER NOT NULL,
  seen_at     INTEGER NOT NULL,
  batches     TEXT NOT NULL,          -- pushed streams: hashes of the last batches
  cursor      TEXT NOT NULL           -- sources that are no file: journal cursor
) STRICT;

-- The last bytes before the offset, where the reader wants them.
CREATE TABLE watched_tail (
  source      INTEGER PRIMARY KEY REFERENCES watched(id) ON DELETE CASCADE,
  bytes       BLOB NOT NULL
) STRICT;

-- The lines of a source that the judgement looked at.
CREATE TABLE spool (
  source      INTEGER NOT NULL REFERENCES watched(id) ON DELETE CASCADE,
  offset      INTEGER NOT NULL,
  number      INTEGER NOT NULL,       -- line, 1-based
  text        TEXT NOT NULL,
  PRIMARY KEY (source, offset)
) STRICT, WITHOUT ROWID;

-- Incidents of live jobs. An incident without a row here was kept by a scan and is closed.
CREATE TABLE tracked (
  incident    TEXT PRIMARY KEY REFERENCES incident(id) ON DELETE CASCADE,
  job         TEXT NOT NULL,
  attempt     INTEGER NOT NULL,
  closed      INTEGER NOT NULL,
  opened_at   INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  revision    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tracked_by_job ON tracked(job);
CREATE INDEX tracked_open ON tracked(opened_at) WHERE closed = 0;
CREATE INDEX incident_by_job ON incident(job, kept_at);
CREATE INDEX incident_by_node ON incident(node, kept_at) WHERE node <> '';

-- What has to be told. The unique key is why nothing is put, and so nothing sent, twice.
CREATE TABLE outbox (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  sink        TEXT NOT NULL,          -- one configured destination
  channel     TEXT NOT NULL,
  incident    TEXT NOT NULL,          -- no reference: a test message has none
  event       TEXT NOT NULL,          -- opened, updated, closed, next_run
  revision    INTEGER NOT NULL,
  body        TEXT NOT NULL,          -- empty once it is sent
  not_before  INTEGER NOT NULL,
  tries       INTEGER NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('waiting', 'sending', 'sent', 'dead', 'uncertain')),
  error       TEXT NOT NULL,
  receipt     TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  UNIQUE (sink, incident, event, revision)
) STRICT;
CREATE INDEX outbox_due ON outbox(not_before) WHERE state = 'waiting';
CREATE INDEX outbox_open ON outbox(sink, incident) WHERE state IN ('waiting', 'sending');
CREATE INDEX outbox_by_incident ON outbox(incident);
CREATE INDEX outbox_done ON outbox(changed_at) WHERE state IN ('sent', 'dead', 'uncertain');
CREATE INDEX outbox_trouble ON outbox(id) WHERE state IN ('dead', 'uncertain', 'sending');

-- The message of an incident at a sink that later ones update or answer.
CREATE TABLE receipt (
  sink        TEXT NOT NULL,
  incident    TEXT NOT NULL,
  channel     TEXT NOT NULL,
  receipt     TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (sink, incident)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipt_by_incident ON receipt(incident);

-- Alerts that are held back: all fields that are not empty have to fit.
CREATE TABLE silence (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  kind        TEXT NOT NULL,          -- beginning of a kind, whole parts
  job         TEXT NOT NULL,
  node        TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  starts_at   INTEGER NOT NULL,
  ends_at     INTEGER NOT NULL,
  author      TEXT NOT NULL,
  reason      TEXT NOT NULL,
  created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX silence_by_end ON silence(ends_at);

-- What a change did for a cause. Outlives its incident: it is what was learnt. No reference therefore.
CREATE TABLE fix_outcome (
  fingerprint TEXT NOT NULL,
  fix         TEXT NOT NULL,          -- id of the catalogue; empty: no fix of the catalogue, see settings
  incident    TEXT NOT NULL,
  origin      TEXT NOT NULL CHECK (origin IN ('next_run', 'feedback')),
  helped      INTEGER NOT NULL,       -- 1: a later attempt passed the failing step, or a person said so
  job         TEXT NOT NULL,
  attempt     INTEGER NOT NULL,       -- the later one
  settings    TEXT NOT NULL,          -- what was changed, as the run states it
  at          INTEGER NOT NULL,
  PRIMARY KEY (fingerprint, fix, incident)
) STRICT, WITHOUT ROWID;
CREATE INDEX fix_outcome_by_incident ON fix_outcome(incident);
