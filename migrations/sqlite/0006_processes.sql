-- Processes that work on the database, and when each was last seen (see db/postgres/engine.rs). Only
-- PostgreSQL has rows: whoever works on an embedded database holds locks on its files.
CREATE TABLE process(
  id TEXT PRIMARY KEY,
  role INTEGER NOT NULL,           -- 0 = engine, 1 = API only
  name TEXT NOT NULL,              -- as people know it
  seen_at INTEGER NOT NULL);       -- by the server's clock

-- down

DROP TABLE process;
