//! Handing many addresses to the queue.
//!
//! The body is read twice: once to check all of it, so that nothing is taken of a request with a mistake
//! in it, and once to hand it on a batch at a time. It is never held as a list of addresses.

use std::collections::BTreeSet;
use std::fmt;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use feedmill_formats::json::Limits;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::submit::{Named, Submission, named};
use crate::api::Api;
use crate::api::asked::{Asked, Nothing, check_json, off_runtime, parse};
use crate::api::body::receive_upload;
use crate::api::problem::Problem;
use crate::app::submit::submit;
use crate::fetch::Guard;
use crate::model::{Kind, NewTask, Origin};

/// Addresses that go to the store at once.
const BATCH: usize = 2_000;
/// And no more than so many bytes of them.
const BATCH_BYTES: usize = 1 << 20;
/// Batches between the thread that reads and the store.
const BATCHES: usize = 2;
/// Addresses of one request.
const MOST: usize = 1_000_000;
/// Sources that one request may name.
const MOST_SOURCES: usize = 10_000;
/// Refusals that are told in full.
const TOLD: usize = 1_000;
/// Nothing of the body is held, so that only its depth matters.
const LIMITS: Limits = Limits { depth: 16, values: usize::MAX, nul: false };

/// Many addresses with what they have in common.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "what the document says of the body")]
pub(in crate::api) struct Together {
    urls: Vec<String>,
    source: Option<String>,
    source_id: Option<String>,
    #[schema(value_type = Option<String>)]
    origin: Option<Origin>,
    priority: Option<i64>,
    #[schema(value_type = Option<String>)]
    kind: Option<Kind>,
}

/// An address alone, or with what is said about it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(in crate::api) enum Item {
    Url(String),
    Whole(Submission),
}

impl Item {
    fn submission(self) -> Submission {
        match self {
            Self::Url(url) => Submission::bare(url),
            Self::Whole(whole) => whole,
        }
    }
}

/// Many addresses, in either form.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "what the document says of the body")]
pub(in crate::api) enum Bulk {
    Together(Together),
    Each(Vec<Item>),
}

/// An address that cannot be taken.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Refused {
    /// Its place among the given ones, from 0.
    at: usize,
    url: String,
    code: String,
    reason: String,
}

/// What became of many addresses.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(in crate::api) struct BulkReport {
    /// Addresses that nobody knew.
    new: u64,
    known: u64,
    /// Known ones that are served earlier now.
    raised: u64,
    /// How many cannot be taken.
    rejected_total: u64,
    /// The first thousand of them.
    rejected: Vec<Refused>,
}

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Lines,
}

/// Hands many addresses to the queue: JSON, or a line of JSON for each
#[utoipa::path(post, path = "/frontier/submit/bulk", tag = "frontier",
    request_body(content((Bulk = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, body = BulkReport)))]
pub(in crate::api) async fn bulk(
    State(api): State<Api>,
    _: Asked<Nothing>,
    request: Request,
) -> Result<Json<BulkReport>, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let form = match kind.to_ascii_lowercase().as_str() {
        "application/json" => Form::Json,
        "application/x-ndjson" => Form::Lines,
        _ => {
            let detail = "say Content-Type: application/json or application/x-ndjson";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail));
        }
    };
    let body = receive_upload(request).await?;
    let checking = body.clone();
    let Checked { common, sources } = off_runtime(move || Checked::of(&checking, form)).await?;
    let named = named(&api, &sources).await?;
    let (sender, mut batches) = mpsc::channel(BATCHES);
    let reading = off_runtime(move || send(&body, form, &common, &sender));
    let submitting = async {
        let guard = Guard::new(&api.config.fetch);
        let mut sum = Sum { guard, report: BulkReport::default(), before: 0 };
        while let Some(batch) = batches.recv().await {
            sum.submit(&api, batch, &named).await?;
        }
        Ok::<_, Problem>(sum.report)
    };
    // Whoever fails first ends both: a closed channel stops the reader.
    let (read, submitted) = tokio::join!(reading, submitting);
    let report = submitted?;
    read?;
    Ok(Json(report))
}

/// What became of the batches so far.
struct Sum {
    guard: Guard,
    report: BulkReport,
    before: usize,
}

impl Sum {
    async fn submit(
        &mut self,
        api: &Api,
        batch: Vec<Submission>,
        named: &Named,
    ) -> Result<(), Problem> {
        let count = batch.len();
        let tasks = batch.into_iter().map(|one| one.task(named));
        let tasks = tasks.collect::<Result<Vec<NewTask>, _>>()?;
        let report = submit(&*api.store, &self.guard, tasks).await?;
        let sum = &mut self.report;
        sum.new += report.new;
        sum.known += report.known;
        sum.raised += report.raised;
        sum.rejected_total += report.rejected.len() as u64;
        let room = TOLD.saturating_sub(sum.rejected.len());
        sum.rejected.extend(report.rejected.into_iter().take(room).map(|it| Refused {
            at: self.before + it.at,
            url: it.url,
            code: it.code.to_owned(),
            reason: it.reason,
        }));
        self.before += count;
        Ok(())
    }
}

/// What the first reading found.
struct Checked {
    common: Submission,
    sources: BTreeSet<String>,
}

impl Checked {
    fn of(body: &[u8], form: Form) -> Result<Self, Problem> {
        if form == Form::Json {
            check_json(body, LIMITS)?;
        }
        let (mut sources, mut count) = (BTreeSet::new(), 0);
        let mut check = |one: Submission| {
            count += 1;
            if count > MOST {
                let detail = "a request has a million addresses at the most";
                return Err(Problem::unusable("too_many", detail));
            }
            if let Some(name) = one.source()
                && !sources.contains(name)
            {
                sources.insert(name.clone());
            }
            if sources.len() > MOST_SOURCES {
                let detail = format!("a request names {MOST_SOURCES} sources at the most");
                return Err(Problem::unusable("too_many", detail));
            }
            one.task(&Named::new()).map(drop)
        };
        let common = each(body, form, &Submission::bare(String::new()), &mut check)?;
        // What all have in common may be said behind the addresses: it is checked like one of them.
        sources.extend(common.source().cloned());
        common.clone().task(&Named::new())?;
        Ok(Self { common, sources })
    }
}

/// Sends all addresses, a batch at a time.
fn send(
    body: &[u8],
    form: Form,
    common: &Submission,
    sender: &mpsc::Sender<Vec<Submission>>,
) -> Result<(), Problem> {
    let closed = || Problem::bad("stopped", "the addresses before it could not be submitted");
    let (mut batch, mut bytes) = (Vec::new(), 0);
    each(body, form, common, &mut |one| {
        bytes += one.url.len();
        batch.push(one);
        if batch.len() < BATCH && bytes < BATCH_BYTES {
            return Ok(());
        }
        bytes = 0;
        let full = std::mem::take(&mut batch);
        sender.blocking_send(full).map_err(|_| closed())
    })?;
    if batch.is_empty() { Ok(()) } else { sender.blocking_send(batch).map_err(|_| closed()) }
}

type Each<'f> = &'f mut dyn FnMut(Submission) -> Result<(), Problem>;

/// Calls `each` with every address of a body. `common` is what is said about all addresses of an object
/// with `urls`; the result is what this body says about them.
fn each(
    body: &[u8],
    form: Form,
    common: &Submission,
    each: Each<'_>,
) -> Result<Submission, Problem> {
    if form == Form::Lines {
        for (at, line) in body.split(|byte| *byte == b'\n').enumerate() {
            if !line.trim_ascii().is_empty() {
                let item = parse::<Item>(line).map_err(|problem| {
                    let message = "is no address and no object with one";
                    problem.about(format!("line {}", at + 1), message)
                })?;
                each(item.submission())?;
            }
        }
        return Ok(common.clone());
    }
    let mut refusal = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let walk = Walk { common, each, refusal: &mut refusal };
    let walked = match body.trim_ascii_start().first() {
        Some(b'{') => reader.deserialize_map(walk),
        _ => reader.deserialize_seq(walk),
    };
    walked.map_err(|error| {
        refusal.unwrap_or_else(|| {
            let message = error.to_string();
            Problem::unusable("bad_body", message.clone()).about("body", message)
        })
    })
}

/// Goes over the addresses of a body of JSON.
struct Walk<'a, 'f> {
    common: &'a Submission,
    each: Each<'f>,
    /// Why an address was refused.
    refusal: &'a mut Option<Problem>,
}

impl Walk<'_, '_> {
    fn take<E: serde::de::Error>(&mut self, one: Submission) -> Result<(), E> {
        (self.each)(one).map_err(|problem| {
            *self.refusal = Some(problem);
            E::custom("refused")
        })
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = Submission;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of addresses, or an object with `urls`")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Submission, A::Error> {
        while let Some(item) = items.next_element::<Item>()? {
            self.take(item.submission())?;
        }
        Ok(self.common.clone())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Submission, A::Error> {
        const FIELDS: &[&str] = &["urls", "source", "source_id", "origin", "priority", "kind"];
        let (mut own, mut has_urls) = (Submission::bare(String::new()), false);
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "urls" if has_urls => return Err(A::Error::duplicate_field("urls")),
                "urls" => {
                    members.next_value_seed(Urls(&mut self))?;
                    has_urls = true;
                }
                "source" => own.source = members.next_value()?,
                "source_id" => own.source_id = members.next_value()?,
                "origin" => own.origin = members.next_value()?,
                "priority" => own.priority = members.next_value()?,
                "kind" => own.kind = members.next_value()?,
                other => {
                    members.next_value::<IgnoredAny>()?;
                    return Err(A::Error::unknown_field(other, FIELDS));
                }
            }
        }
        if has_urls { Ok(own) } else { Err(A::Error::missing_field("urls")) }
    }
}

/// The addresses of an object.
struct Urls<'w, 'a, 'f>(&'w mut Walk<'a, 'f>);

impl<'de> DeserializeSeed<'de> for Urls<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Urls<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of addresses")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(url) = items.next_element::<String>()? {
            let one = Submission { url, ..self.0.common.clone() };
            self.0.take(one)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, form: Form) -> Result<Vec<(String, Option<String>)>, Problem> {
        let Checked { common, .. } = Checked::of(body.as_bytes(), form)?;
        let mut all = Vec::new();
        each(body.as_bytes(), form, &common, &mut |one| {
            all.push((one.url.clone(), one.source().cloned()));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn all_forms_say_the_same() {
        let wanted = ["a", "b"].map(|url| (url.to_owned(), Some("s".to_owned())));
        for (body, form) in [
            (r#"{"urls": ["a", "b"], "source": "s", "kind": "feed"}"#, Form::Json),
            (r#"{"source_id": "s", "urls": ["a", "b"]}"#, Form::Json),
            (
                r#"[{"url": "a", "source": "s"}, {"url": "b", "source": "s", "priority": 3}]"#,
                Form::Json,
            ),
            (
                "{\"url\": \"a\", \"source\": \"s\"}\n\n{\"url\": \"b\", \"source\": \"s\"}\n",
                Form::Lines,
            ),
        ] {
            assert_eq!(read(body, form).unwrap(), wanted, "{body}");
        }
        assert_eq!(read(r#"["x"]"#, Form::Json).unwrap(), [("x".to_owned(), None)]);
    }

    #[test]
    fn a_mistake_anywhere_is_found_before_anything_is_taken() {
        for (body, form, status) in [
            (r#"{"urls": ["a"], "priority": 11}"#, Form::Json, 422),
            (r#"{"urls": ["a"], "mood": 1}"#, Form::Json, 422),
            (r#"{"source": "a"}"#, Form::Json, 422),
            (r#"["a", 3]"#, Form::Json, 422),
            (r#"["a", {"url": "b", "kind": "robots"}]"#, Form::Json, 422),
            (r#"["a", "#, Form::Json, 400),
            (r#"["a\u0000"]"#, Form::Json, 400),
            ("3", Form::Json, 422),
            ("\"a\"\n{", Form::Lines, 400),
        ] {
            assert_eq!(read(body, form).unwrap_err().status(), status, "{body}");
        }
        let many = format!("[{}]", vec!["\"\""; MOST + 1].join(","));
        assert_eq!(read(&many, Form::Json).unwrap_err().status(), 422);
    }
}
