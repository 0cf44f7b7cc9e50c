-- Checksums of what rows hold (see store/damage.rs), so that a damaged row is noticed where it is read.
-- NULL = written before there were any.
ALTER TABLE entry ADD COLUMN checksum bigint;            -- of its body
ALTER TABLE article ADD COLUMN checksum bigint;          -- of its body
ALTER TABLE article_text ADD COLUMN checksum bigint;     -- of its compressed text
ALTER TABLE article_revision ADD COLUMN checksum bigint; -- of its body and its compressed text
ALTER TABLE event ADD COLUMN checksum bigint;            -- of its payload

-- down
ALTER TABLE event DROP COLUMN checksum;
ALTER TABLE article_revision DROP COLUMN checksum;
ALTER TABLE article_text DROP COLUMN checksum;
ALTER TABLE article DROP COLUMN checksum;
ALTER TABLE entry DROP COLUMN checksum;
