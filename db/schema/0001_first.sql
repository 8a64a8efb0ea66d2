-- What offline scans keep: one row an incident with its diagnosis, the findings it rests on, its fixes, and what people said of them.
-- Times are microseconds since 1970 UTC; memory is bytes.

CREATE TABLE rule_set (
  hash        TEXT PRIMARY KEY,
  version     TEXT NOT NULL           -- of the program that carried the rules
) STRICT, WITHOUT ROWID;

CREATE TABLE source (
  name        TEXT PRIMARY KEY,
  bytes       INTEGER NOT NULL,
  lines       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE incident (
  id          TEXT PRIMARY KEY,       -- the same bytes give the same id
  fingerprint TEXT NOT NULL,          -- the same cause gives the same fingerprint, over jobs and clusters
  rule_set    TEXT NOT NULL REFERENCES rule_set(hash),
  kept_at     INTEGER NOT NULL,
  occurred_at INTEGER,                -- time of the root line, where the log has one
  job         TEXT NOT NULL,
  attempt     INTEGER NOT NULL,
  kind        TEXT NOT NULL,
  backend     TEXT NOT NULL,
  phase       TEXT NOT NULL,
  confidence  REAL NOT NULL,
  summary     TEXT NOT NULL,
  source      TEXT NOT NULL,
  line        INTEGER NOT NULL,
  rank        INTEGER,
  node        TEXT NOT NULL,
  step        INTEGER,
  answer      TEXT NOT NULL           -- the incident as `--format json` prints it
) STRICT, WITHOUT ROWID;
CREATE INDEX incident_by_fingerprint ON incident(fingerprint);
CREATE INDEX incident_by_time ON incident(kept_at);

CREATE TABLE finding (
  incident    TEXT NOT NULL REFERENCES incident(id) ON DELETE CASCADE,
  position    INTEGER NOT NULL,
  rule        TEXT NOT NULL,
  version     INTEGER NOT NULL,
  role        TEXT NOT NULL,
  kind        TEXT NOT NULL,
  source      TEXT NOT NULL,
  line        INTEGER NOT NULL,
  offset      INTEGER NOT NULL,
  rank        INTEGER,
  count       INTEGER NOT NULL,
  PRIMARY KEY (incident, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE fix (
  incident    TEXT NOT NULL REFERENCES incident(id) ON DELETE CASCADE,
  rank        INTEGER NOT NULL,
  id          TEXT NOT NULL,
  title       TEXT NOT NULL,
  saving_mid  INTEGER,
  PRIMARY KEY (incident, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE feedback (
  incident    TEXT NOT NULL REFERENCES incident(id) ON DELETE CASCADE,
  said_at     INTEGER NOT NULL,
  fix         TEXT NOT NULL,          -- empty: about the diagnosis itself
  helped      INTEGER NOT NULL,       -- 1 yes, 0 no
  note        TEXT NOT NULL,
  PRIMARY KEY (incident, fix)
) STRICT, WITHOUT ROWID;
