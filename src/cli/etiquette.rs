//! `feedmill etiquette`: how we behave towards a publisher, as the publisher would ask.

use feedmill_formats::url;

use super::{Context, Failure, text};
use crate::app::etiquette::{Manners, bot_page, etiquette};
use crate::config::Span;
use crate::frontier::PauseOrigin;
use crate::model::Ts;

/// Tells how Feedmill behaves towards the publisher of an address
///
/// What robots.txt allows it, how long it pauses and on whose word, what it asks for and how often, what
/// it asked for in the last 30 days, and how to stop it. At most one request is made: for robots.txt, in
/// its host's turn, and only when no fresh copy is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  feedmill etiquette https://example.com/news/
  feedmill etiquette --page > bot.html")]
pub(super) struct Args {
    /// The address
    #[arg(required_unless_present = "page")]
    url: Option<String>,
    /// Prints the page about the robot that publishers are sent to
    #[arg(long, conflicts_with = "url")]
    page: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let loaded = context.load()?;
    let Some(given) = &args.url else {
        let page = bot_page(&loaded.config);
        return context.out.document(&page, &page);
    };
    let url = url::parse(given)
        .map_err(|error| Failure::usage(error.code(), format!("`{given}`: {error}")))?;
    context.log(&loaded, crate::config::Level::Warn, None);
    let manners = etiquette(&url, &loaded.config, &context.clock).await?;
    context.out.emit(&manners, |_| told(&manners, context.clock.now()))
}

fn told(manners: &Manners, now: Ts) -> String {
    let Manners { robots, asked, .. } = manners;
    let from = match manners.pause_from {
        PauseOrigin::CrawlDelay => "robots.txt asks for it",
        PauseOrigin::Source => "the operator asks for it, for a source",
        PauseOrigin::Learned => "complaints taught it",
        PauseOrigin::Operator => "the operator asks for it",
        PauseOrigin::Default => "the usual one",
    };
    let pause = Span::millis(manners.pause_ms);
    let read = match (robots.read_at, robots.exists) {
        (Some(at), true) => format!("{}, read {}", robots.url, text::when(at, now)),
        (Some(at), false) => format!("{} is not there, as of {}", robots.url, text::when(at, now)),
        (None, _) => format!("{} was never read", robots.url),
    };
    let contact = if manners.contact.is_empty() { "not set" } else { &manners.contact };
    let rights = serde_json::to_string(&manners.rights).unwrap_or_default();
    let mut lines = vec![
        text::one_line(&manners.url),
        fact(
            "allowed",
            &format!("{}: {}", if manners.allowed { "yes" } else { "no" }, manners.why),
        ),
        fact("agent", &manners.agent),
        fact("contact", contact),
        fact("robots.txt", &read),
    ];
    lines.extend(robots.trouble.iter().map(|why| fact("", why)));
    lines
        .extend(robots.crawl_delay_ms.map(|ms| fact("crawl-delay", &Span::millis(ms).to_string())));
    lines.extend(robots.sitemaps.iter().map(|url| fact("sitemap", url)));
    lines.extend((rights != "{}").then(|| fact("use", &rights)));
    let at_a_time = text::count(u64::from(manners.at_a_time), "request");
    lines.push(fact("pace", &format!("{at_a_time} at a time, {pause} apart ({from})")));
    for channel in &manners.channels {
        let next = text::ever(channel.next_at, now);
        let times = text::count(u64::from(channel.fetch_count), "time");
        let why = channel.reason.as_deref().map_or_else(String::new, |why| format!("; {why}"));
        let visited = format!("{} {}: {times} so far, next {next}{why}", channel.kind, channel.url);
        lines.push(fact("visits", &visited));
    }
    let bytes = text::bytes(asked.bytes);
    let least = asked.least_pause_ms.map_or_else(String::new, |ms| {
        format!(", never less than {} from one to the next", Span::millis(ms))
    });
    lines.push(fact(
        "30 days",
        &format!(
            "{} with {bytes}, {} unchanged, {} complaints{least}",
            text::count(asked.requests, "request"),
            text::number(asked.not_modified),
            text::number(asked.complaints),
        ),
    ));
    lines.extend(manners.to_stop.iter().map(|way| fact("to stop it", way)));
    lines.join("\n")
}

fn fact(name: &str, value: &str) -> String {
    format!("{name:<11} {}", text::one_line(value))
}
