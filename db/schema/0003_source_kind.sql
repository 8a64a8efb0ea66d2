-- What a watched source is, and what of it is known to be lost.
ALTER TABLE watched ADD COLUMN kind TEXT NOT NULL DEFAULT '';   -- file (empty), dump, push, kmsg, journal
ALTER TABLE checkpoint ADD COLUMN lost_bytes INTEGER NOT NULL DEFAULT 0;
