//! `feedmill source errors`: what went wrong with a source's channels, newest first.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::super::out::Out;
use super::super::{Context, Failure, channel, text};
use crate::model::{Code, FetchRecord, TaskId, Ts};
use crate::store::ChannelState;

/// Requests that are looked back on for each channel: a week of one every two minutes.
const LOOK_BACK: usize = 5_000;
const DAY: Duration = Duration::from_hours(24);

/// What went wrong with a channel.
#[derive(Debug, Serialize)]
struct History {
    url: String,
    state: String,
    /// What was said of the last one, when it is still so.
    reason: Option<String>,
    /// Requests in the last day and the last seven.
    requests: [usize; 2],
    /// Failures by code in the last day and the last seven.
    counts: BTreeMap<&'static str, [usize; 2]>,
    /// The last ones, newest first.
    errors: Vec<Failed>,
}

/// A request that failed.
#[derive(Debug, Serialize)]
struct Failed {
    at: Ts,
    code: Code,
    status: Option<u16>,
    url: String,
}

pub(super) async fn run(name: &str, limit: usize, context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let (source, channels) = store.source(name).await?;
    let now = context.clock.now();
    let mut told = Vec::new();
    for channel in &channels {
        let task = uuid::Uuid::parse_str(&channel.id).ok().and_then(TaskId::from_uuid);
        let Some(task) = task else { continue };
        told.push(history(channel, &store.fetches(task, LOOK_BACK).await?, limit, now));
    }
    let value = json!({ "source": source.spec.name, "channels": told });
    context.out.emit(&value, |out| {
        let parts: Vec<_> = told.iter().map(|one| shown(one, now, out)).collect();
        if parts.is_empty() { "no channels of its own".to_owned() } else { parts.join("\n\n") }
    })
}

const fn is_failure(code: Code) -> bool {
    !matches!(code, Code::Ok | Code::NotModified | Code::Redirect)
}

fn history(channel: &ChannelState, fetches: &[FetchRecord], limit: usize, now: Ts) -> History {
    let (day, week) = (now.before(DAY), now.before(7 * DAY));
    let mut history = History {
        url: channel.url.clone(),
        state: channel::state(channel, now),
        reason: channel.reason.clone().filter(|_| channel.last_error.is_some()),
        requests: [0, 0],
        counts: BTreeMap::new(),
        errors: Vec::new(),
    };
    for fetch in fetches {
        let within = [usize::from(fetch.at >= day), usize::from(fetch.at >= week)];
        let add = |to: &mut [usize; 2]| to.iter_mut().zip(within).for_each(|(to, one)| *to += one);
        add(&mut history.requests);
        if !is_failure(fetch.code) {
            continue;
        }
        if within != [0, 0] {
            add(history.counts.entry(fetch.code.as_str()).or_default());
        }
        if history.errors.len() < limit {
            let FetchRecord { at, code, status, ref url, .. } = *fetch;
            history.errors.push(Failed { at, code, status, url: url.clone() });
        }
    }
    history
}

fn shown(history: &History, now: Ts, out: &Out) -> String {
    let mut lines = vec![format!("{}  {}", text::one_line(&history.url), history.state)];
    lines.extend(history.reason.iter().map(|reason| format!("last: {}", text::one_line(reason))));
    let [day, week] = history.requests;
    lines.push(format!(
        "{} in 24 hours, {} in 7 days",
        text::count(day as u64, "request"),
        text::number(week as u64)
    ));
    if history.errors.is_empty() {
        lines.push("no errors".to_owned());
        return lines.join("\n");
    }
    let counts = history.counts.iter().map(|(code, [day, week])| {
        [(*code).to_owned(), text::number(*day as u64), text::number(*week as u64)]
    });
    let counts: Vec<_> = counts.collect();
    if !counts.is_empty() {
        lines.push(out.table(["code", "24 hours", "7 days"], counts));
    }
    let rows = history.errors.iter().map(|failed| {
        let status = failed.status.map_or_else(String::new, |status| status.to_string());
        let other = if failed.url == history.url { String::new() } else { failed.url.clone() };
        [text::when(failed.at, now), failed.code.to_string(), status, text::one_line(&other)]
    });
    lines.push(out.table(["when", "error", "status", "asked"], rows.collect()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FetchId, Health, Kind, SourceId, Status};

    #[test]
    fn errors_are_counted_by_code_and_the_last_ones_listed() {
        let now = Ts::from_ms(1_000_000_000_000);
        let hour = 3_600_000;
        let fetch = |hours: i64, code, status| FetchRecord {
            id: FetchId::from_u128(1),
            task: Some(TaskId(1)),
            at: Ts::from_ms(now.ms() - hours * hour),
            url: "https://a.example/feed".into(),
            status,
            code,
            bytes: 0,
            elapsed_ms: 1,
            content_type: None,
            body_sha256: None,
            raw: None,
        };
        let channel = ChannelState {
            source: SourceId(1),
            id: String::new(),
            kind: Kind::Feed,
            url: "https://a.example/feed".into(),
            moved_from: None,
            status: Status::Pending,
            next_fetch_at: now,
            last_fetched_at: Some(now),
            last_success_at: None,
            failures: 2,
            items: 0,
            last_error: Some(Code::Upstream),
            reason: Some("status 500".into()),
            health: Health::Failing,
            health_since: None,
            disabled_since: None,
            warnings: Vec::new(),
        };
        let fetches = [
            fetch(1, Code::Upstream, Some(500)),
            fetch(2, Code::NotModified, Some(304)),
            fetch(30, Code::Upstream, Some(502)),
            fetch(40, Code::Timeout, None),
            fetch(24 * 8, Code::Gone, Some(410)),
        ];
        let told = history(&channel, &fetches, 3, now);
        assert_eq!(told.requests, [2, 4]);
        assert_eq!(told.counts, [("timeout", [0, 1]), ("upstream_failure", [1, 2])].into());
        let codes: Vec<_> = told.errors.iter().map(|failed| failed.code).collect();
        assert_eq!(codes, [Code::Upstream, Code::Upstream, Code::Timeout]);
        assert_eq!(told.reason.as_deref(), Some("status 500"));
    }
}
