-- What each source had stored on a day, in the archive and in the database (see app/quota.rs).
CREATE TABLE source_usage(
  day bigint NOT NULL,             -- days since 1970-01-01, UTC
  source_id bigint NOT NULL,
  bytes bigint NOT NULL,
  limited_at bigint,               -- since when nothing more of it is fetched on that day
  reason text,
  PRIMARY KEY(day, source_id));

-- down

DROP TABLE source_usage;
