//! `feedmill source diff`: what a feed changed between its last two forms, told or not.

use feedmill_formats::decode;
use feedmill_formats::feed::{self, Change, Difference, Feed};
use serde::Serialize;
use serde_json::json;

use super::super::out::{Out, Tone};
use super::super::{Context, Failure, text};
use crate::app;
use crate::archive::Reader;
use crate::model::{FetchRecord, Kind, TaskId, Ts};

/// Fetches that are looked back on for a form of the feed before the last.
const LOOK_BACK: usize = 500;

/// A feed's last two forms and what is different.
#[derive(Debug, Serialize)]
struct Compared {
    url: String,
    /// When the earlier form was last served; `None` when there is only one.
    before: Option<Ts>,
    after: Option<Ts>,
    differences: Vec<Difference>,
}

pub(super) async fn run(name: &str, context: &Context) -> Result<(), Failure> {
    let config = context.load()?.config;
    let store = context.store().await?;
    let (source, channels) = store.source(name).await?;
    let archive = app::reader(&config)?;
    let mut compared = Vec::new();
    for channel in channels.iter().filter(|channel| channel.kind == Kind::Feed) {
        let Some(task) = uuid::Uuid::parse_str(&channel.id).ok().and_then(TaskId::from_uuid) else {
            continue;
        };
        let fetches = store.fetches(task, LOOK_BACK).await?;
        let forms = last_forms(&fetches, &archive, config.fetch.max_decoded.as_len()).await;
        let (before, after) = match forms.as_slice() {
            [after, before, ..] => (Some(before), Some(after)),
            [after] => (None, Some(after)),
            [] => (None, None),
        };
        let differences = before.zip(after).map(|((_, old), (_, new))| feed::diff(old, new));
        compared.push(Compared {
            url: channel.url.clone(),
            before: before.map(|(at, _)| *at),
            after: after.map(|(at, _)| *at),
            differences: differences.unwrap_or_default(),
        });
    }
    context.out.emit(&json!({ "source": source.spec.name, "feeds": compared }), |out| {
        let told: Vec<_> = compared.iter().map(|feed| told(feed, out)).collect();
        if told.is_empty() { "no feeds to compare".to_owned() } else { told.join("\n\n") }
    })
}

/// The last two forms of a feed that are in the archive and can be read, the latest first.
async fn last_forms(fetches: &[FetchRecord], archive: &Reader, limit: usize) -> Vec<(Ts, Feed)> {
    let mut forms: Vec<(Ts, Feed)> = Vec::new();
    let mut seen = Vec::new();
    for fetch in fetches.iter().filter(|fetch| fetch.status == Some(200)) {
        if forms.len() == 2 || seen.contains(&&fetch.body_sha256) {
            continue;
        }
        if let Some(feed) = stored(fetch, archive, limit).await {
            seen.push(&fetch.body_sha256);
            forms.push((fetch.at, feed));
        }
    }
    forms
}

async fn stored(fetch: &FetchRecord, archive: &Reader, limit: usize) -> Option<Feed> {
    let kept = archive.stored(fetch.raw.as_ref()?).await.ok()?;
    let body = decode::capped(&kept.body, kept.head.get("content-encoding"), limit).ok()?;
    feed::parse(&body, kept.head.get("content-type"), &fetch.url, &feed::Limits::default()).ok()
}

fn told(feed: &Compared, out: &Out) -> String {
    let head = match (feed.before, feed.after) {
        (Some(before), Some(after)) => format!("{} from {before} to {after}", feed.url),
        (None, Some(after)) => format!("{}: only one form is kept, of {after}", feed.url),
        _ => format!("{}: no form of it is kept", feed.url),
    };
    let lines = feed.differences.iter().map(|difference| {
        let (tone, word) = match difference.change {
            Change::Added => (Tone::Good, "added"),
            Change::Revised => (Tone::Good, "revised"),
            Change::Rewritten => (Tone::Bad, "rewritten"),
            Change::Withdrawn => (Tone::Bad, "withdrawn"),
        };
        let title = difference.title.as_deref().unwrap_or(&difference.entry);
        let mut line =
            format!("{}  {}", out.paint(tone, &format!("{word:<9}")), text::one_line(title));
        for field in &difference.fields {
            let show = |value: &Option<String>| {
                let value: String =
                    value.as_deref().unwrap_or("nothing").chars().take(120).collect();
                text::one_line(&value)
            };
            line.push_str(&format!("\n           {} was: {}", field.field, show(&field.before)));
            line.push_str(&format!("\n           {} is:  {}", field.field, show(&field.after)));
        }
        line
    });
    let mut lines: Vec<_> = lines.collect();
    if lines.is_empty() && feed.before.is_some() {
        lines.push("no entry is different".to_owned());
    }
    lines.insert(0, text::one_line(&head));
    lines.join("\n")
}
