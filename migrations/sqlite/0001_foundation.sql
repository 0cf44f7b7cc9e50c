-- Everything Feedmill knows, in one file. Times are Unix milliseconds, enums the numbers of
-- model.rs. The host row is the head of its queue and its lease (see frontier/sqlite.rs).

CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE source(
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: old references must not find a new source
  uuid TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  url TEXT NOT NULL,
  spec TEXT NOT NULL,              -- NewSource as JSON
  enabled_at INTEGER,
  disabled_at INTEGER,
  disable_reason TEXT,
  created_at INTEGER NOT NULL);

-- The search for the channels of a source that names none, as far as it has come.
CREATE TABLE discovery(source_id INTEGER PRIMARY KEY, state TEXT NOT NULL); -- Discovery as JSON

CREATE TABLE host(
  id INTEGER PRIMARY KEY,
  queue_id INTEGER NOT NULL,       -- id of slot 0: what queue and task rows call their host
  name TEXT NOT NULL,              -- host, or the group that shares its budget
  slot INTEGER NOT NULL DEFAULT 0, -- a host that takes k requests at a time has k rows
  concurrency INTEGER NOT NULL DEFAULT 1,
  top_poll INTEGER,                -- highest queued priority of the lane, NULL = nothing queued
  top_page INTEGER,
  top_media INTEGER,
  next_at INTEGER NOT NULL DEFAULT 0,
  crawl_ms INTEGER,                -- pause asked for by robots.txt
  rate_ms INTEGER,                 -- pause asked for by a source
  slow_ms INTEGER NOT NULL DEFAULT 0, -- the shortest pause that the operator allows
  learned_ms INTEGER NOT NULL DEFAULT 0,
  blocked_until INTEGER NOT NULL DEFAULT 0,
  last_lane INTEGER,               -- lane of the last claim: polls take every second slot
  lease_id INTEGER,
  lease_task INTEGER,
  last_fetch_at INTEGER,
  created_at INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX host_name ON host(name, slot);
CREATE INDEX host_queue ON host(queue_id);
CREATE INDEX host_poll ON host(top_poll, next_at) WHERE top_poll IS NOT NULL;
CREATE INDEX host_page ON host(top_page, next_at) WHERE top_page IS NOT NULL;
CREATE INDEX host_media ON host(top_media, next_at) WHERE top_media IS NOT NULL;
CREATE UNIQUE INDEX host_lease ON host(lease_id, id) WHERE lease_id IS NOT NULL;

CREATE TABLE task(
  id INTEGER PRIMARY KEY,          -- never used twice (see db/transfer/sqlite.rs)
  host_id INTEGER NOT NULL,        -- 0 = no task: the highest number ever given
  lane INTEGER NOT NULL,
  hash INTEGER NOT NULL,           -- first 64 bits of url_hash
  kind INTEGER NOT NULL,
  prio INTEGER NOT NULL,
  status INTEGER NOT NULL,
  retry INTEGER NOT NULL DEFAULT 0,
  due INTEGER NOT NULL,
  source_id INTEGER,
  origin INTEGER NOT NULL,
  parent_id INTEGER,
  depth INTEGER NOT NULL DEFAULT 0,
  redirects INTEGER NOT NULL DEFAULT 0, -- that led to it, over hosts
  discovered_at INTEGER NOT NULL,
  fetched_at INTEGER,              -- until the first answer, when it was taken in: a row that grows splits its page
  fetch_count INTEGER NOT NULL DEFAULT 0,
  url TEXT NOT NULL,
  url_key TEXT);                   -- only where it differs from url
CREATE UNIQUE INDEX task_key ON task(host_id, lane, hash);
CREATE INDEX task_parked ON task(parent_id) WHERE status = 3;
-- Without the status: completing a task leaves them alone.
CREATE INDEX task_by_source ON task(source_id) WHERE source_id IS NOT NULL;
CREATE INDEX task_channel ON task(source_id) WHERE lane = 0;
-- What went wrong is looked for most, and is little.
CREATE INDEX task_dead ON task(id) WHERE status = 2;
CREATE INDEX task_failed ON task(id) WHERE status = 0 AND retry > 0;

-- Who else told of a task, beside what its own row says. All pages of a source's site are one channel.
CREATE TABLE task_source(
  task_id INTEGER NOT NULL, source_id INTEGER NOT NULL, origin INTEGER NOT NULL,
  channel_id INTEGER NOT NULL,     -- the feed or sitemap; 0 = the source's pages, or its operator
  first_seen INTEGER NOT NULL,
  PRIMARY KEY(task_id, source_id, origin, channel_id)) WITHOUT ROWID;
CREATE INDEX task_source_by_source ON task_source(source_id);

CREATE TABLE queue(
  host_id INTEGER NOT NULL, lane INTEGER NOT NULL, nprio INTEGER NOT NULL, due INTEGER NOT NULL,
  task_id INTEGER NOT NULL, PRIMARY KEY(host_id, lane, nprio, due, task_id)) WITHOUT ROWID;

CREATE TABLE delayed(
  due INTEGER NOT NULL, task_id INTEGER NOT NULL, PRIMARY KEY(due, task_id)) WITHOUT ROWID;

-- What fetching taught about a task; written only once there was something to say.
CREATE TABLE fetch_state(
  task_id INTEGER PRIMARY KEY,
  etag TEXT,
  last_modified TEXT,
  validators_for TEXT,             -- the address that the validators belong to
  content_hash BLOB,
  last_error INTEGER,              -- a Code
  strikes INTEGER NOT NULL DEFAULT 0, -- leases that ran out since the last answer
  reason TEXT);

CREATE TABLE robots(
  origin TEXT PRIMARY KEY,
  host TEXT NOT NULL,              -- its queue: the longest pause of a host's origins counts
  crawl_ms INTEGER,
  body TEXT,                       -- NULL = everything is allowed
  fetched_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  failures INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID; -- in a row; without any copy all times are 0
CREATE INDEX robots_host ON robots(host);

CREATE TABLE feed(
  task_id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  title TEXT,
  failures INTEGER NOT NULL DEFAULT 0,
  last_success INTEGER,
  body_hash BLOB,
  body_bytes INTEGER NOT NULL DEFAULT 0, -- as served
  interval_ms INTEGER,
  schedule BLOB,                   -- what the scheduler remembers
  bucket INTEGER,                  -- of its rate; NULL = its polls do not follow the price
  health INTEGER NOT NULL DEFAULT 0,
  health_at INTEGER,               -- since when it does like that
  disabled_at INTEGER,             -- since when it is only probed, or was given up
  warnings TEXT,                   -- of the last document, as JSON; NULL = none
  probed_at INTEGER,               -- when it was last asked without validators on suspicion
  yielded INTEGER NOT NULL DEFAULT 0, -- tasks told of first, not yet heard of by the scheduler
  told INTEGER NOT NULL DEFAULT 0, -- tasks told of first, ever
  heard INTEGER NOT NULL DEFAULT 0, -- what sitemaps had told when it last had news or was probed
  moved_from TEXT,                 -- the address that it had before
  moving_to TEXT,                  -- where permanent redirects have been sending its polls
  moving_since INTEGER,
  moving_polls INTEGER,
  by_pages INTEGER NOT NULL DEFAULT 0, -- its ids did not last: entries are known by pages
  left_out BLOB,                   -- ids of items that stand in it and are not taken, 8 bytes of each
  items INTEGER NOT NULL DEFAULT 0,
  new_items INTEGER NOT NULL DEFAULT 0);

-- Hosts that pages of a source link to and that are not its own: candidates for sources.
CREATE TABLE outside(
  source_id INTEGER NOT NULL, host TEXT NOT NULL,
  url TEXT NOT NULL,               -- the first link to it
  links INTEGER NOT NULL,          -- seen on pages, each time that they were read
  first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL,
  PRIMARY KEY(source_id, host)) WITHOUT ROWID;

CREATE TABLE entry(
  row INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  feed_id INTEGER NOT NULL,
  link_hash BLOB,
  published INTEGER,
  updated INTEGER,
  content_hash BLOB NOT NULL,
  first_seen INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  seen_count INTEGER NOT NULL,
  fetch_id BLOB,
  slice_offset INTEGER,
  slice_length INTEGER,
  deleted_at INTEGER,              -- when the feed said that it is gone
  withdrawn INTEGER NOT NULL DEFAULT 0, -- 1 = taken down: only what it is known by is kept
  uid INTEGER NOT NULL DEFAULT 0,  -- 64 bits of the hash of the id that its feed gives it
  body TEXT NOT NULL);             -- Entry as JSON
CREATE INDEX entry_feed ON entry(feed_id, first_seen);
CREATE INDEX entry_seen ON entry(first_seen);
CREATE INDEX entry_uid ON entry(uid);
CREATE INDEX entry_published ON entry(feed_id, published);
CREATE INDEX entry_link ON entry(link_hash) WHERE link_hash IS NOT NULL;

CREATE TABLE article(
  row INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  task_id INTEGER NOT NULL,
  source_id INTEGER,
  published INTEGER,
  content_hash BLOB NOT NULL,
  simhash INTEGER NOT NULL,
  duplicate_of BLOB,
  site TEXT NOT NULL,              -- registrable domain of its address
  cluster BLOB,                    -- the first of the copies that it is one of, when it is another
  nearest BLOB,                    -- the one of them that it was nearest to
  share INTEGER,                   -- of text in common with that one, in thousandths
  wire INTEGER,                    -- 1 = these copies are at several sites
  sketch BLOB,                     -- what its text is compared by
  revision INTEGER NOT NULL,
  first_seen INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  fetch_id BLOB,
  body TEXT NOT NULL);             -- Article as JSON, without its text
-- Whoever has a text of its own comes before its copies.
CREATE INDEX article_content ON article(content_hash, duplicate_of);
CREATE INDEX article_cluster ON article(cluster) WHERE cluster IS NOT NULL;
CREATE INDEX article_source ON article(source_id, first_seen);
CREATE INDEX article_seen ON article(first_seen);
CREATE TABLE article_text(row INTEGER PRIMARY KEY, zstd BLOB NOT NULL);

-- Which blocks of text stand on many pages of a host (see store/prints.rs).
CREATE TABLE host_prints(host TEXT PRIMARY KEY, prints BLOB NOT NULL) WITHOUT ROWID;

-- The keys that near-duplicates of an article are found by (see store/near.rs). Those of its past
-- forms stay: copies of these lead to it as well.
CREATE TABLE article_key(
  key INTEGER NOT NULL, row INTEGER NOT NULL, PRIMARY KEY(key, row)) WITHOUT ROWID;

-- Forms of articles that another one followed, and what made the next one of them.
CREATE TABLE article_revision(
  row INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  until INTEGER NOT NULL,          -- when the next one came
  content_hash BLOB NOT NULL,
  fetch_id BLOB,
  added INTEGER NOT NULL,          -- words
  removed INTEGER NOT NULL,
  silent INTEGER NOT NULL,         -- 1 = the page kept its date
  body TEXT NOT NULL,
  zstd BLOB NOT NULL,
  PRIMARY KEY(row, revision));

CREATE TABLE fetch(
  id BLOB PRIMARY KEY,
  task_id INTEGER NOT NULL,
  at INTEGER NOT NULL,
  url TEXT NOT NULL,
  status INTEGER,
  code INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  elapsed_ms INTEGER NOT NULL,
  content_type TEXT,
  body_sha256 TEXT,
  segment TEXT, offset INTEGER, length INTEGER) WITHOUT ROWID;
CREATE INDEX fetch_task ON fetch(task_id, at);
CREATE INDEX fetch_segment ON fetch(segment, offset) WHERE segment IS NOT NULL;

CREATE TABLE event(
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  subject TEXT NOT NULL,
  source_id INTEGER,
  payload TEXT NOT NULL);

CREATE TABLE sink(
  name TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,            -- the last event delivered
  state TEXT NOT NULL,             -- what the sink itself needs to go on, as JSON
  turn INTEGER NOT NULL DEFAULT 0, -- how often it was put elsewhere: what was under way then is void
  paused_at INTEGER,
  held_by TEXT,                    -- the process that delivers
  held_until INTEGER NOT NULL DEFAULT 0,
  delivered INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  updated_at INTEGER NOT NULL) WITHOUT ROWID;

-- Events that a sink's target will not have, until somebody sends them again.
CREATE TABLE dead_letter(
  sink TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,             -- when it was refused last
  attempts INTEGER NOT NULL,
  again INTEGER NOT NULL DEFAULT 0, -- 1 = it is to be sent again
  code TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY(sink, seq)) WITHOUT ROWID;

-- What was taken down: who wanted it and why. It is refused until that is lifted; the row stays.
CREATE TABLE takedown(
  scope INTEGER NOT NULL,
  target TEXT NOT NULL,            -- normalised address, host, or id of a source
  at INTEGER NOT NULL,
  name TEXT NOT NULL,               -- as people know it
  "by" TEXT NOT NULL,
  why TEXT NOT NULL,
  articles INTEGER NOT NULL DEFAULT 0, -- that went
  entries INTEGER NOT NULL DEFAULT 0,
  records INTEGER NOT NULL DEFAULT 0,  -- of the archive
  done_at INTEGER,                     -- when nothing was left
  lifted_at INTEGER,
  lifted_by TEXT,
  PRIMARY KEY(scope, target, at)) WITHOUT ROWID;

-- Addresses that a takedown refuses, when it is not all of a host's.
CREATE TABLE withdrawn(
  hash BLOB NOT NULL, scope INTEGER NOT NULL, target TEXT NOT NULL,
  PRIMARY KEY(hash, scope, target)) WITHOUT ROWID;

-- Records of the archive that nobody may read any more, until their bytes are gone.
CREATE TABLE erasure(
  segment TEXT NOT NULL, offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  body_sha256 TEXT,                 -- others may rely on this very body
  PRIMARY KEY(segment, offset)) WITHOUT ROWID;

-- Who may use the HTTP server, and what was done with it.
CREATE TABLE token(
  id TEXT PRIMARY KEY,             -- the part of it that is no secret
  name TEXT NOT NULL UNIQUE,
  scope INTEGER NOT NULL,
  hash BLOB NOT NULL,              -- SHA-256 of the whole
  created_at INTEGER NOT NULL,
  used_at INTEGER) WITHOUT ROWID;
CREATE TABLE audit(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  who TEXT NOT NULL,
  method TEXT NOT NULL,
  path TEXT NOT NULL,
  status INTEGER NOT NULL);

-- The seeds' names for those who know them.
CREATE VIEW url_frontier AS
  SELECT t.id, t.url, coalesce(t.url_key, t.url) AS url_key, h.name AS host, s.uuid AS source_id,
    CASE t.origin WHEN 0 THEN 'feed' WHEN 1 THEN 'sitemap' WHEN 2 THEN 'spider' ELSE 'manual' END AS origin,
    (SELECT p.url FROM task p WHERE p.id = t.parent_id) AS parent_url,
    t.depth, t.prio AS priority,
    CASE WHEN EXISTS(SELECT 1 FROM host l WHERE l.queue_id = t.host_id AND l.lease_task = t.id) THEN 'fetching' WHEN t.status = 1 THEN 'fetched'
      WHEN t.status = 2 THEN 'dead' WHEN t.status = 3 THEN 'parked'
      WHEN t.retry > 0 THEN 'failed' ELSE 'pending' END AS status,
    t.due AS next_fetch_at, CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END AS last_fetched_at, t.fetch_count,
    lower(hex(f.content_hash)) AS content_hash, f.etag, f.last_modified, t.retry AS retry_count, f.last_error,
    CASE f.last_error WHEN 2 THEN f.validators_for END AS redirected_to,
    t.discovered_at, t.discovered_at AS created_at, coalesce(t.fetched_at, t.discovered_at) AS updated_at
  FROM task t JOIN host h ON h.id = t.host_id
    LEFT JOIN source s ON s.id = t.source_id LEFT JOIN fetch_state f ON f.task_id = t.id;

CREATE VIEW host_state AS
  SELECT h.name AS host,
    (SELECT max(l.last_fetch_at) FROM host l WHERE l.queue_id = h.id) AS last_fetch_at,
    max(coalesce(h.crawl_ms, h.rate_ms, 1000), h.learned_ms, h.slow_ms) AS min_delay_ms,
    (SELECT r.body FROM robots r WHERE r.origin = 'https://' || h.name) AS robots_txt,
    (SELECT r.fetched_at FROM robots r WHERE r.origin = 'https://' || h.name) AS robots_fetched_at,
    24 AS robots_ttl_hours, h.created_at, coalesce(h.last_fetch_at, h.created_at) AS updated_at
  FROM host h WHERE h.slot = 0;

CREATE VIEW feed_state AS
  SELECT s.uuid AS source_id, t.url AS feed_url, CASE WHEN t.fetch_count > 0 OR t.status IN (1, 2) THEN t.fetched_at END AS last_polled_at, x.etag AS last_etag,
    x.last_modified, f.items AS last_item_count, f.failures AS consecutive_errors, x.last_error,
    t.discovered_at AS created_at, coalesce(t.fetched_at, t.discovered_at) AS updated_at
  FROM feed f JOIN task t ON t.id = f.task_id LEFT JOIN source s ON s.id = t.source_id
    LEFT JOIN fetch_state x ON x.task_id = t.id WHERE t.kind = 2;

-- down

DROP VIEW feed_state;
DROP VIEW host_state;
DROP VIEW url_frontier;
DROP TABLE erasure;
DROP TABLE withdrawn;
DROP TABLE takedown;
DROP TABLE audit;
DROP TABLE token;
DROP TABLE dead_letter;
DROP TABLE sink;
DROP TABLE event;
DROP TABLE fetch;
DROP TABLE article_revision;
DROP TABLE article_key;
DROP TABLE host_prints;
DROP TABLE article_text;
DROP TABLE article;
DROP TABLE entry;
DROP TABLE outside;
DROP TABLE feed;
DROP TABLE robots;
DROP TABLE fetch_state;
DROP TABLE delayed;
DROP TABLE queue;
DROP TABLE task_source;
DROP TABLE task;
DROP TABLE host;
DROP TABLE discovery;
DROP TABLE source;
DROP TABLE meta;
