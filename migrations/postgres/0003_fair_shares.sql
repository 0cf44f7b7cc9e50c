-- What workers are shared out by (see frontier/fairness.rs). Both are filled in when a host is made or
-- claimed; 0 = not known yet.
ALTER TABLE host ADD COLUMN site bigint NOT NULL DEFAULT 0; -- 64 bits of the hash of its registrable domain
ALTER TABLE host ADD COLUMN owner bigint NOT NULL DEFAULT 0; -- source of its first task when last seen, -1 = none

-- down

ALTER TABLE host DROP COLUMN owner;
ALTER TABLE host DROP COLUMN site;
