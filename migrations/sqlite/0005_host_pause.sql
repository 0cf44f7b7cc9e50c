-- Whose response asked to leave a host alone until blocked_until: a task, or 0 when it is not known which.
-- NULL = the operator blocked it. Clearing the pace of a source ends only what responses asked for.
ALTER TABLE host ADD COLUMN blocked_by INTEGER;
-- Blocks without end are the operator's; others of an earlier version mostly were asked for.
UPDATE host SET blocked_by = 0 WHERE blocked_until > 0 AND blocked_until < 253402300799000;

-- down

ALTER TABLE host DROP COLUMN blocked_by;
