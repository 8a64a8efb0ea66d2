-- Lines around what was found in a file that is not kept: an upload is removed once it was read.
CREATE TABLE excerpt (
  incident    TEXT NOT NULL REFERENCES incident(id) ON DELETE CASCADE,
  source      TEXT NOT NULL,
  offset      INTEGER NOT NULL,       -- of the line in its source
  number      INTEGER NOT NULL,       -- line, 1-based
  text        TEXT NOT NULL,
  PRIMARY KEY (incident, source, offset)
) STRICT, WITHOUT ROWID;
