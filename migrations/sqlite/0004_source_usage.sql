-- What each source had stored on a day, in the archive and in the database (see app/quota.rs).
CREATE TABLE source_usage(
  day INTEGER NOT NULL,            -- days since 1970-01-01, UTC
  source_id INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  limited_at INTEGER,              -- since when nothing more of it is fetched on that day
  reason TEXT,
  PRIMARY KEY(day, source_id)) WITHOUT ROWID;

-- down

DROP TABLE source_usage;
