-- New tasks, each into the queue when it is due, else to the waiting ones; parked ones to neither.
WITH w AS (
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
    $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
    $12::bigint[], $13::text[], $14::text[])
    AS w(host_id, lane, hash, kind, prio, status, due, source_id, origin, parent_id, depth,
      redirects, url, url_key)),
ins AS (
  INSERT INTO task(host_id, lane, hash, kind, prio, status, due, source_id, origin, parent_id, depth,
    redirects, discovered_at, url, url_key)
  SELECT host_id, lane, hash, kind, prio, status, due, source_id, origin, parent_id, depth,
    redirects, $15::bigint, url, url_key FROM w
  ON CONFLICT (host_id, lane, hash) DO NOTHING
  RETURNING id, host_id, lane, hash, prio, status, due),
q AS (
  INSERT INTO queue(host_id, lane, nprio, due, task_id)
  SELECT host_id, lane, 10 - prio, due, id FROM ins WHERE status = 0 AND due <= $15),
d AS (
  INSERT INTO delayed(due, task_id) SELECT due, id FROM ins WHERE status = 0 AND due > $15)
SELECT id, host_id, lane, hash FROM ins
