//! How a source's channels do, in the words that all commands use.

use super::text;
pub(super) use crate::app::standing::{health, is_disabled};
use crate::model::{Discovery, Status, Ts};
use crate::store::ChannelState;

/// Where a channel stands: polled, or why not and since when.
pub(super) fn state(channel: &ChannelState, now: Ts) -> String {
    let code = channel.last_error.map_or_else(String::new, |code| format!(": {code}"));
    let since = channel.disabled_since.map(|at| format!(" {}", text::when(at, now)));
    let since = since.unwrap_or_default();
    match channel.status {
        Status::Dead => format!("given up{since}{code}"),
        Status::Fetched => "over".to_owned(),
        Status::Parked => "parked".to_owned(),
        Status::Pending if is_disabled(channel) => format!("disabled{since}{code}"),
        Status::Pending if channel.last_fetched_at.is_none() => "new".to_owned(),
        Status::Pending => "polled".to_owned(),
    }
}

/// What was wrong with its last document, a line each.
pub(super) fn warnings(channel: &ChannelState) -> impl Iterator<Item = String> + '_ {
    channel.warnings.iter().map(|warned| {
        let times =
            if warned.count > 1 { format!(" ({} times)", warned.count) } else { String::new() };
        let detail = match warned.detail.as_str() {
            "" => String::new(),
            detail => format!(": {}", text::one_line(detail)),
        };
        format!("{}{times}{detail}", warned.code)
    })
}

/// What the search for channels found, tried in vain and left out.
pub(super) fn searched(search: &Discovery) -> String {
    let head = match search.ended {
        Some(_) if search.found.is_empty() => "no feed and no sitemap was found; tried:",
        Some(_) => "found by looking around; tried as well:",
        None => "its feeds are being looked for; tried so far:",
    };
    let mut lines = vec![head.to_owned()];
    lines.extend(search.found.iter().map(|found| {
        format!("  {}: {}, {}", text::one_line(&found.url), found.kind, found.how.told())
    }));
    lines.extend(
        search.tried.iter().map(|tried| {
            format!("  {}: {}", text::one_line(&tried.url), text::one_line(&tried.why))
        }),
    );
    let left = if search.ended.is_some() { "not asked for" } else { "still to be asked for" };
    lines.extend(search.left.iter().map(|it| format!("  {}: {left}", text::one_line(&it.url))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Code, Health, Kind, SourceId, Warned};

    #[test]
    fn a_channel_says_where_it_stands_why_and_since_when() {
        let now = Ts::from_ms(1_000_000_000_000);
        let polled = ChannelState {
            source: SourceId(1),
            id: String::new(),
            kind: Kind::Feed,
            url: "https://a.example/feed".into(),
            moved_from: None,
            status: Status::Pending,
            next_fetch_at: now,
            last_fetched_at: Some(now),
            last_success_at: None,
            failures: 3,
            items: 0,
            last_error: Some(Code::NotFound),
            reason: None,
            health: Health::Failing,
            health_since: Some(now),
            disabled_since: None,
            warnings: vec![Warned { code: "bad_date".into(), detail: "x\ny".into(), count: 2 }],
        };
        assert_eq!(state(&polled, now), "polled");
        let at = Some(Ts::from_ms(now.ms() - 7_200_000));
        let disabled = ChannelState { disabled_since: at, ..polled.clone() };
        assert_eq!(state(&disabled, now), "disabled 2h ago: not_found");
        let given_up =
            ChannelState { status: Status::Dead, last_error: Some(Code::Gone), ..disabled.clone() };
        assert_eq!(state(&given_up, now), "given up 2h ago: gone");
        assert!(is_disabled(&disabled) && is_disabled(&given_up) && !is_disabled(&polled));
        assert_eq!(warnings(&polled).collect::<Vec<_>>(), ["bad_date (2 times): x y"]);
    }
}
