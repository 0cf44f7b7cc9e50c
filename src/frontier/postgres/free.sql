-- Slots whose leases are over. The tops are those of a queue without other slots, and only of the lane
-- that has changed, where one is named; lanes are the numbers of model::Lane.
UPDATE host h SET lease_id = NULL, lease_task = NULL, next_at = w.next_at,
  learned_ms = w.learned_ms, blocked_until = w.blocked_until, blocked_by = w.blocked_by,
  last_fetch_at = CASE WHEN w.asked THEN $8::bigint ELSE h.last_fetch_at END,
  top_poll = CASE WHEN coalesce(w.lane, 0) <> 0 THEN h.top_poll ELSE (SELECT 10 - q.nprio FROM queue q
    WHERE q.host_id = w.queue_id AND q.lane = 0 ORDER BY q.nprio LIMIT 1) END,
  top_page = CASE WHEN coalesce(w.lane, 1) <> 1 THEN h.top_page ELSE (SELECT 10 - q.nprio FROM queue q
    WHERE q.host_id = w.queue_id AND q.lane = 1 ORDER BY q.nprio LIMIT 1) END,
  top_media = CASE WHEN coalesce(w.lane, 2) <> 2 THEN h.top_media ELSE (SELECT 10 - q.nprio FROM queue q
    WHERE q.host_id = w.queue_id AND q.lane = 2 ORDER BY q.nprio LIMIT 1) END
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::boolean[], $9::bigint[]) AS w(id, queue_id, lane, next_at, learned_ms, blocked_until, asked, blocked_by)
WHERE h.id = w.id
