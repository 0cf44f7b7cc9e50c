-- What workers are shared out by (see frontier/fairness.rs). Both are filled in when a host is made or
-- claimed; 0 = not known yet.
ALTER TABLE host ADD COLUMN site INTEGER NOT NULL DEFAULT 0; -- 64 bits of the hash of its registrable domain
ALTER TABLE host ADD COLUMN owner INTEGER NOT NULL DEFAULT 0; -- source of its first task when last seen, -1 = none
-- With both at the end of the indexes a claim skips hosts of a busy source without reading their rows.
DROP INDEX host_poll;
DROP INDEX host_page;
DROP INDEX host_media;
CREATE INDEX host_poll ON host(top_poll, next_at, site, owner) WHERE top_poll IS NOT NULL;
CREATE INDEX host_page ON host(top_page, next_at, site, owner) WHERE top_page IS NOT NULL;
CREATE INDEX host_media ON host(top_media, next_at, site, owner) WHERE top_media IS NOT NULL;

-- down

DROP INDEX host_poll;
DROP INDEX host_page;
DROP INDEX host_media;
ALTER TABLE host DROP COLUMN owner;
ALTER TABLE host DROP COLUMN site;
CREATE INDEX host_poll ON host(top_poll, next_at) WHERE top_poll IS NOT NULL;
CREATE INDEX host_page ON host(top_page, next_at) WHERE top_page IS NOT NULL;
CREATE INDEX host_media ON host(top_media, next_at) WHERE top_media IS NOT NULL;
