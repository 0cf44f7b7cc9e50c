-- Processes that work on the database, and when each was last seen (see db/postgres/engine.rs).
CREATE TABLE process(
  id text PRIMARY KEY,
  role smallint NOT NULL,          -- 0 = engine, 1 = API only
  name text NOT NULL,              -- as people know it
  seen_at bigint NOT NULL);        -- by the server's clock

-- down

DROP TABLE process;
