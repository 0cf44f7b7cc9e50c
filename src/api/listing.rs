//! Lists, a page at a time or all of it as lines of JSON.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::asked::Lines;
use super::problem::Problem;

/// Items of a page when nothing is said.
const USUAL: usize = 50;
/// Items of a page at the most.
pub(super) const MOST: usize = 1_000;
/// Items that are read at once, at the most and at first.
const STRETCH: usize = 500;
const FIRST_BATCH: usize = 10;
/// Bytes of items that are read at once, as far as can be told from those before.
const BATCH_BYTES: usize = 1 << 20;
/// A page ends at so many bytes, also when it has fewer items than were asked for.
const PAGE_BYTES: usize = 8 << 20;

/// What a list is called that is written as lines.
pub(super) const LINES: &str = "application/x-ndjson";

/// A part of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Page<T> {
    /// What is in it. It may be short, or empty, while there is a next one.
    pub(super) items: Vec<T>,
    /// The `cursor` of the next part; null at the end.
    pub(super) next: Option<String>,
}

/// How many items to read next, when the last so many had so many bytes: as many as fit into the bytes
/// that are wanted, and at most ten times as many as before.
pub(super) fn next_batch(bytes: usize, items: usize, wanted: usize, most: usize) -> usize {
    let each = bytes / items.max(1);
    (wanted / each.max(1)).min(items.saturating_mul(10)).clamp(1, most)
}

/// Items, and the place behind the last one when there are more.
pub(super) type Stretch<T, P> = (Vec<T>, Option<P>);

/// A place in a list as it is told. Whoever gets it need not know what is in it.
#[expect(clippy::needless_pass_by_value, reason = "places are small, and made for this")]
pub(super) fn told(place: impl ToString) -> String {
    URL_SAFE_NO_PAD.encode(place.to_string())
}

/// The place that was told.
pub(super) fn place<T: FromStr>(cursor: Option<&str>) -> Result<Option<T>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|text| String::from_utf8(text).ok());
    let place = text.filter(|text| !text.contains('\0')).and_then(|text| text.parse().ok());
    let message = "is no place in this list: use what the page before told as next";
    place.map(Some).ok_or_else(|| Problem::parameter("cursor", message))
}

/// The first so many of what was read with one more than that.
pub(super) fn cut<T, V, P>(
    mut rows: Vec<T>,
    limit: usize,
    place: impl Fn(&T) -> P,
    view: impl Fn(T) -> V,
) -> Stretch<V, P> {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(place);
    (rows.into_iter().map(view).collect(), next)
}

/// Which part of a list, where nothing else can be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

impl Part {
    pub(super) fn wanted(self, lines: Lines) -> Wanted {
        Wanted { lines, limit: self.limit, cursor: self.cursor }
    }
}

/// Which part of a list is wanted, and how.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) lines: Lines,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

impl Wanted {
    fn checked(&self) -> Result<Option<usize>, Problem> {
        match self.limit {
            Some(limit) if !(1..=MOST).contains(&limit) && !self.lines.0 => {
                Err(Problem::parameter("limit", format!("must be from 1 to {MOST}")))
            }
            Some(0) => Err(Problem::parameter("limit", "must be 1 or more")),
            limit => Ok(limit),
        }
    }

    /// Answers with what `read` reads behind a place: a page, or all of the list as lines.
    pub(super) async fn list<P, T, F, R>(self, read: F) -> Result<Response, Problem>
    where
        P: FromStr + ToString + 'static,
        T: Serialize + Send + 'static,
        F: Fn(Option<P>, usize) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Stretch<T, P>, Problem>> + Send + 'static,
    {
        let read = move |cursor: Option<String>, limit| {
            let begun = place(cursor.as_deref()).map(|after| read(after, limit));
            async move {
                let (items, next) = begun?.await?;
                Ok(Page { items, next: next.map(told) })
            }
        };
        self.answer(read).await
    }

    async fn answer<T, F, R>(self, read: F) -> Result<Response, Problem>
    where
        T: Serialize + Send + 'static,
        F: Fn(Option<String>, usize) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Page<T>, Problem>> + Send + 'static,
    {
        let limit = self.checked()?;
        if !self.lines.0 {
            return page(&read, self.cursor, limit.unwrap_or(USUAL)).await;
        }
        let left = limit.unwrap_or(usize::MAX);
        // The first part is read before the answer begins: what is wrong with it is a status.
        let first = read(self.cursor, left.min(FIRST_BATCH)).await?;
        let read = Arc::new(read);
        let lines = stream::try_unfold((Some(first), left), move |(page, left)| {
            let read = Arc::clone(&read);
            async move {
                let Some(page) = page else { return Ok(None) };
                let text = lines_of(&page.items)?;
                let left = left.saturating_sub(page.items.len());
                let batch = match page.items.len() {
                    0 => FIRST_BATCH,
                    items => next_batch(text.len(), items, BATCH_BYTES, STRETCH),
                };
                let next = match page.next.filter(|_| left > 0) {
                    Some(next) => {
                        let broken = |problem: Problem| {
                            std::io::Error::other(format!("status {}", problem.status()))
                        };
                        Some(read(Some(next), left.min(batch)).await.map_err(broken)?)
                    }
                    None => None,
                };
                Ok::<_, std::io::Error>(Some((text, (next, left))))
            }
        });
        Ok(written(Body::from_stream(lines)))
    }
}

/// A page, read in batches that are as small as their items are large. It is short when its items are.
async fn page<T, F, R>(read: &F, cursor: Option<String>, limit: usize) -> Result<Response, Problem>
where
    T: Serialize + Send + 'static,
    F: Fn(Option<String>, usize) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Page<T>, Problem>> + Send + 'static,
{
    let (mut text, mut count) = (br#"{"items":["#.to_vec(), 0);
    let (mut cursor, mut batch) = (cursor, FIRST_BATCH);
    let next = loop {
        let Page { items, next } = read(cursor, batch.min(limit - count)).await?;
        let before = text.len();
        for item in &items {
            if count > 0 {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, item)
                .map_err(|error| Problem::bad("json", error.to_string()))?;
            count += 1;
        }
        if items.is_empty() || next.is_none() || count >= limit || text.len() >= PAGE_BYTES {
            break next;
        }
        let room = PAGE_BYTES.saturating_sub(text.len()).min(BATCH_BYTES);
        batch = next_batch(text.len() - before, items.len(), room, STRETCH);
        cursor = next;
    };
    text.extend_from_slice(br#"],"next":"#);
    serde_json::to_writer(&mut text, &next)
        .map_err(|error| Problem::bad("json", error.to_string()))?;
    text.push(b'}');
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Lines of JSON as an answer.
pub(super) fn written(lines: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, LINES)], lines).into_response()
}

/// Answers with a list that is never long enough for pages.
pub(super) fn whole<T: Serialize>(lines: Lines, items: Vec<T>) -> Response {
    match lines.0 {
        true => written(lines_of(&items).unwrap_or_default()),
        false => Json(Page { items, next: None }).into_response(),
    }
}

/// A line of JSON for each.
pub(super) fn lines_of<T: Serialize>(items: &[T]) -> Result<Bytes, std::io::Error> {
    let mut text = Vec::new();
    for item in items {
        serde_json::to_writer(&mut text, item)?;
        text.push(b'\n');
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_place_that_we_told_is_a_place() {
        for bad in ["", "!", "YQ", "AA"] {
            assert!(place::<i64>(Some(bad)).is_err(), "{bad}");
        }
        assert_eq!(place::<i64>(None).unwrap(), None);
    }

    #[test]
    fn large_items_are_read_in_small_batches() {
        for (bytes, items, batch) in
            [(10_000, 10, 100), (1_000, 10, 100), (20 << 20, 10, 1), (1 << 20, 10, 10), (0, 0, 1)]
        {
            assert_eq!(next_batch(bytes, items, 1 << 20, 500), batch, "{bytes} {items}");
        }
    }

    #[tokio::test]
    async fn a_page_ends_at_its_bytes_and_says_where_to_go_on() {
        let read = |cursor: Option<String>, limit: usize| async move {
            let from = cursor.map_or(0, |cursor| cursor.parse::<usize>().unwrap());
            let items: Vec<String> = (from..from + limit).map(|_| "x".repeat(3 << 20)).collect();
            Ok(Page { next: Some((from + items.len()).to_string()), items })
        };
        let answer = page(&read, None, 1_000).await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let page: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (10, &"10".into()));
    }

    proptest! {
        #[test]
        fn a_place_reads_back(number: i64) {
            prop_assert_eq!(place::<i64>(Some(&told(number))).unwrap(), Some(number));
        }
    }
}
