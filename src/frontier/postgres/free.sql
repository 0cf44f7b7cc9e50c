-- Slots whose leases are over. The tops are those of a queue without other slots; lanes are the numbers
-- of model::Lane.
UPDATE host h SET lease_id = NULL, lease_task = NULL, next_at = w.next_at,
  learned_ms = w.learned_ms, blocked_until = w.blocked_until,
  last_fetch_at = CASE WHEN w.asked THEN $7::bigint ELSE h.last_fetch_at END,
  top_poll = (SELECT 10 - q.nprio FROM queue q WHERE q.host_id = w.queue_id AND q.lane = 0
    ORDER BY q.nprio LIMIT 1),
  top_page = (SELECT 10 - q.nprio FROM queue q WHERE q.host_id = w.queue_id AND q.lane = 1
    ORDER BY q.nprio LIMIT 1),
  top_media = (SELECT 10 - q.nprio FROM queue q WHERE q.host_id = w.queue_id AND q.lane = 2
    ORDER BY q.nprio LIMIT 1)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bigint[])
  AS w(id, next_at, learned_ms, blocked_until, asked, queue_id)
WHERE h.id = w.id
