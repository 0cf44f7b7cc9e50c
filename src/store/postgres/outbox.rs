//! What sinks need of the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::{PgStore, article, read, sources, told};
use crate::db::postgres::{clean, column, first, rows, run};
use crate::db::{DbError, Session};
use crate::frontier::postgres::{int, maybe, maybe_ts, narrow, now};
use crate::model::{TaskId, Ts};
use crate::store::damage::{DamagedTable, ROW_DAMAGED, checked};
use crate::store::forms::{from_json, to_json};
use crate::store::outbox::{
    DeadLetter, Delivery, Joined, LogEnds, Outbox, Refusal, SinkCursor, SinkRow, SinkWish, Start,
    Trail, Wanted,
};

#[async_trait]
impl Outbox for PgStore {
    async fn join(&self, wanted: Wanted) -> Result<Joined, DbError> {
        let client = self.db.client().await?;
        let mut joined = Joined::default();
        if !wanted.entries.is_empty() {
            let (known, damaged) = read::checked_entries(&client, &wanted.entries).await?;
            joined.entries = known;
            for (id, damage) in damaged {
                joined.damaged(DamagedTable::Entry, &id, damage.reason);
            }
        }
        if !wanted.articles.is_empty() {
            let (known, damaged) = article::checked_texts(&client, &wanted.articles).await?;
            joined.articles = known;
            for (id, damage) in damaged {
                joined.damaged(DamagedTable::Article, &id, damage.reason);
            }
            joined.trails = trails(&client, &joined).await?;
        }
        if !wanted.sources.is_empty() {
            match checked(sources::by_ids(&client, &wanted.sources).await, || None)? {
                Ok(found) => {
                    let shared = found.into_iter().map(|source| (source.id, Arc::new(source)));
                    joined.sources = shared.collect();
                }
                // One of them is damaged: which is found out one by one.
                Err(_) => {
                    for id in &wanted.sources {
                        match checked(sources::by_ids(&client, &[*id]).await, || None)? {
                            Ok(found) => joined.sources.extend(
                                found.into_iter().map(|source| (source.id, Arc::new(source))),
                            ),
                            Err(damage) => {
                                joined.damaged(DamagedTable::Source, &id.0, damage.reason);
                            }
                        }
                    }
                }
            }
        }
        let taken_down = first(&client, "SELECT EXISTS(SELECT 1 FROM takedown)", &[]).await?;
        joined.keeps_all = !taken_down.is_some_and(|row| row.try_get(0).unwrap_or(true));
        Ok(joined)
    }

    async fn open_sink(&self, name: &str, start: Start) -> Result<SinkRow, DbError> {
        let client = self.db.client().await?;
        if let Some(found) = find(&client, name).await? {
            return Ok(found);
        }
        run(
            &client,
            "INSERT INTO sink(name, seq, state, updated_at)
             VALUES($1, $2, 'null', coalesce($3, feedmill_now())) ON CONFLICT (name) DO NOTHING",
            &[&name, &place(&client, start).await?, &self.db.given_now()],
        )
        .await?;
        find(&client, name).await?.ok_or(DbError::Closed)
    }

    async fn sinks(&self) -> Result<Vec<SinkRow>, DbError> {
        let sql = format!("{SELECT} ORDER BY name");
        rows(&self.db.client().await?, &sql, &[]).await?.iter().map(read_sink).collect()
    }

    async fn hold_sink(&self, name: &str, who: &str, span: Duration) -> Result<bool, DbError> {
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 2);
        let held = run(
            &self.db.client().await?,
            "UPDATE sink SET held_by = $2, held_until = coalesce($3, feedmill_now()) + $4
             WHERE name = $1 AND (held_by IS NULL OR held_by = $2
               OR held_until <= coalesce($3, feedmill_now()))",
            &[&name, &who, &self.db.given_now(), &span],
        )
        .await?;
        Ok(held > 0)
    }

    async fn release_sink(&self, name: &str, who: &str) -> Result<(), DbError> {
        run(
            &self.db.client().await?,
            "UPDATE sink SET held_by = NULL, held_until = 0 WHERE name = $1 AND held_by = $2",
            &[&name, &who],
        )
        .await?;
        Ok(())
    }

    async fn note_delivery(&self, name: &str, delivery: Delivery) -> Result<bool, DbError> {
        let Delivery { cursor, delivered, error, refused, settled } = delivery;
        let mut client = self.db.client().await?;
        let tx = client.transaction().await?;
        let now = now(&self.db, &tx).await?;
        let noted = run(
            &tx,
            "UPDATE sink SET seq = $3, state = $4, delivered = delivered + $5, last_error = $6,
               updated_at = $7 WHERE name = $1 AND turn = $2",
            &[
                &name,
                &cursor.turn,
                &cursor.seq,
                &to_json(&cursor.state)?,
                &i64::try_from(delivered).unwrap_or(i64::MAX),
                &error.as_deref().map(clean),
                &now.ms(),
            ],
        )
        .await?;
        if noted == 0 {
            return Ok(false);
        }
        if !refused.is_empty() {
            bury(&tx, name, &refused, now).await?;
        }
        if !settled.is_empty() {
            let sql = "DELETE FROM dead_letter WHERE sink = $1 AND seq = ANY($2::bigint[])";
            run(&tx, sql, &[&name, &settled]).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    async fn wish(&self, name: &str, wish: SinkWish) -> Result<u64, DbError> {
        let client = self.db.client().await?;
        let done = match wish {
            SinkWish::Pause => {
                let sql = "UPDATE sink SET
                    paused_at = coalesce(paused_at, $2, feedmill_now()) WHERE name = $1";
                run(&client, sql, &[&name, &self.db.given_now()]).await?
            }
            SinkWish::Resume => {
                let sql = "UPDATE sink SET paused_at = NULL WHERE name = $1";
                run(&client, sql, &[&name]).await?
            }
            SinkWish::Replay(start) => {
                let sql = "UPDATE sink SET seq = $2, turn = turn + 1 WHERE name = $1";
                run(&client, sql, &[&name, &place(&client, start).await?]).await?
            }
            SinkWish::Again(seq) => {
                let sql = "UPDATE dead_letter SET again = 1
                    WHERE sink = $1 AND seq = coalesce($2, seq)";
                run(&client, sql, &[&name, &seq]).await?
            }
            SinkWish::Drop(seq) => {
                let sql = "DELETE FROM dead_letter WHERE sink = $1 AND seq = coalesce($2, seq)";
                run(&client, sql, &[&name, &seq]).await?
            }
            SinkWish::Forget => {
                run(&client, "DELETE FROM dead_letter WHERE sink = $1", &[&name]).await?;
                run(&client, "DELETE FROM sink WHERE name = $1", &[&name]).await?
            }
        };
        drop(client);
        self.told().await;
        Ok(done)
    }

    async fn dead_letters(
        &self,
        name: &str,
        after: i64,
        again_only: bool,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, DbError> {
        let sql = "SELECT seq, at, attempts, again, code, reason FROM dead_letter
            WHERE sink = $1 AND seq > $2 AND again >= $3 ORDER BY seq LIMIT $4";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let client = self.db.client().await?;
        let again = i64::from(again_only);
        let found = rows(&client, sql, &[&name, &after, &again, &limit]).await?;
        let read = |row: &Row| {
            Ok(DeadLetter {
                seq: int(row, 0)?,
                at: Ts::from_ms(int(row, 1)?),
                attempts: narrow("attempts", row, 2)?,
                again: int(row, 3)? != 0,
                code: row.try_get(4)?,
                reason: row.try_get(5)?,
            })
        };
        found.iter().map(read).collect()
    }

    async fn log_ends(&self, after: i64) -> Result<LogEnds, DbError> {
        ends(&self.db.client().await?, after).await
    }

    async fn trim_log(&self, before: Ts, upto: i64, limit: usize) -> Result<u64, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = "DELETE FROM event WHERE seq IN (SELECT seq FROM event
              WHERE seq <= $2 AND at < $1 AND seq < (SELECT max(seq) FROM event)
                AND NOT EXISTS (SELECT 1 FROM dead_letter d WHERE d.seq = event.seq)
              ORDER BY seq LIMIT $3)";
        run(&self.db.client().await?, sql, &[&before.ms(), &upto, &limit]).await
    }
}

const SELECT: &str = "SELECT s.name, s.seq, s.turn, s.state, s.paused_at, s.held_by, s.delivered,
    s.last_error, s.updated_at, (SELECT count(*) FROM dead_letter d WHERE d.sink = s.name)
  FROM sink s";

/// Has sinks send again what they left out because the rows of these subjects were damaged.
pub(super) async fn send_damaged_again<C: Session>(
    client: &C,
    subjects: &[String],
) -> Result<(), DbError> {
    if subjects.is_empty() {
        return Ok(());
    }
    run(
        client,
        "UPDATE dead_letter SET again = 1 WHERE code = $1 AND EXISTS(
           SELECT 1 FROM event e WHERE e.seq = dead_letter.seq AND e.subject = ANY($2::text[]))",
        &[&ROW_DAMAGED, &subjects],
    )
    .await?;
    Ok(())
}

/// How articles came to us.
async fn trails<C: Session>(
    client: &C,
    joined: &Joined,
) -> Result<HashMap<TaskId, Arc<Trail>>, DbError> {
    let tasks: Vec<TaskId> = joined.articles.values().map(|(row, _)| row.task_id).collect();
    let mut trails: HashMap<TaskId, Trail> = HashMap::new();
    for (task, told) in told::references(client, &tasks).await? {
        trails.entry(task).or_default().told.push(told);
    }
    let sql = "SELECT id, url FROM task WHERE id = ANY($1::bigint[])";
    for row in &rows(client, sql, &[&column(&tasks, |task| task.0)]).await? {
        trails.entry(TaskId(int(row, 0)?)).or_default().given = row.try_get(1)?;
    }
    Ok(trails.into_iter().map(|(task, trail)| (task, Arc::new(trail))).collect())
}

fn read_sink(row: &Row) -> Result<SinkRow, DbError> {
    Ok(SinkRow {
        name: row.try_get(0)?,
        cursor: SinkCursor {
            seq: int(row, 1)?,
            turn: int(row, 2)?,
            state: from_json("sink", row.try_get(3)?)?,
        },
        paused_at: maybe_ts(row, 4)?,
        held_by: row.try_get(5)?,
        delivered: narrow("count", row, 6)?,
        last_error: row.try_get(7)?,
        updated_at: Ts::from_ms(int(row, 8)?),
        dead_letters: narrow("count", row, 9)?,
    })
}

async fn find<C: Session>(client: &C, name: &str) -> Result<Option<SinkRow>, DbError> {
    let sql = format!("{SELECT} WHERE s.name = $1");
    first(client, &sql, &[&name]).await?.as_ref().map(read_sink).transpose()
}

/// The place that a start stands for.
async fn place<C: Session>(client: &C, start: Start) -> Result<i64, DbError> {
    match start {
        Start::Beginning => Ok(0),
        Start::After(seq) => Ok(seq),
        Start::Now => Ok(ends(client, 0).await?.last),
        Start::At(at) => {
            let sql = "SELECT seq FROM event WHERE at < $1 ORDER BY seq DESC LIMIT 1";
            let before = first(client, sql, &[&at.ms()]).await?;
            before.map_or(Ok(0), |row| int(&row, 0))
        }
    }
}

async fn ends<C: Session>(client: &C, after: i64) -> Result<LogEnds, DbError> {
    let sql = "SELECT coalesce((SELECT min(seq) FROM event), 0),
          coalesce((SELECT max(seq) FROM event), 0),
          (SELECT at FROM event WHERE seq > $1 ORDER BY seq LIMIT 1)";
    let Some(row) = first(client, sql, &[&after]).await? else { return Ok(LogEnds::default()) };
    let next_at = maybe(&row, 2)?.map(Ts::from_ms);
    Ok(LogEnds { first: int(&row, 0)?, last: int(&row, 1)?, next_at })
}

async fn bury<C: Session>(
    client: &C,
    name: &str,
    refused: &[Refusal],
    now: Ts,
) -> Result<(), DbError> {
    // A statement may touch a row only once: the last word on an event counts.
    let letters: HashMap<i64, &Refusal> = refused.iter().map(|it| (it.seq, it)).collect();
    let letters: Vec<&Refusal> = letters.into_values().collect();
    run(
        client,
        "INSERT INTO dead_letter AS d(sink, seq, at, attempts, code, reason)
         SELECT $1, w.seq, $2::bigint, 1, w.code, w.reason
         FROM unnest($3::bigint[], $4::text[], $5::text[]) AS w(seq, code, reason)
         ON CONFLICT (sink, seq) DO UPDATE SET at = excluded.at, attempts = d.attempts + 1,
           again = 0, code = excluded.code, reason = excluded.reason",
        &[
            &name,
            &now.ms(),
            &column(&letters, |it| it.seq),
            &column(&letters, |it| it.code),
            &column(&letters, |it| clean(&it.reason)),
        ],
    )
    .await?;
    Ok(())
}
