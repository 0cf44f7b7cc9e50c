//! The flags that say where the parts of a source's articles stand, and `feedmill source selectors`,
//! which changes it.

use feedmill_formats::article::{Selector, Selectors};

use serde_json::json;

use super::super::{Context, Failure, text};
use crate::model::{Source, SourceChange};

/// Where the parts of its articles stand, as CSS selectors: of several with commas between them the
/// first that matches wins. What is not said, or not found, is worked out.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "selectors")]
#[command(next_help_heading = "Where the parts of its articles stand")]
pub(in crate::cli) struct Flags {
    /// The element that the whole article stands in
    #[arg(long, value_name = "SELECTOR")]
    container: Option<Selector>,
    /// The headline
    #[arg(long, value_name = "SELECTOR")]
    title: Option<Selector>,
    /// The text: all that it finds
    #[arg(long, value_name = "SELECTOR")]
    body: Option<Selector>,
    /// The summary
    #[arg(long, value_name = "SELECTOR")]
    intro: Option<Selector>,
    /// Those who wrote it
    #[arg(long, alias = "byline", value_name = "SELECTOR")]
    author: Option<Selector>,
    /// When it was published
    #[arg(long, value_name = "SELECTOR")]
    published_time: Option<Selector>,
    /// The part of the publication
    #[arg(long, value_name = "SELECTOR")]
    section: Option<Selector>,
    /// Its labels
    #[arg(long, value_name = "SELECTOR")]
    keywords: Option<Selector>,
    /// The main picture
    #[arg(long, value_name = "SELECTOR")]
    image: Option<Selector>,
    /// What is no part of it; may be repeated
    #[arg(long, value_name = "SELECTOR")]
    exclude: Vec<Selector>,
}

/// Shows where the parts of a source's articles stand, or changes it
///
/// Without flags it shows the selectors that are set. Flags replace all of them; --clear removes them, so
/// that the parts are worked out. `source test` shows what selectors gain and lose before they are kept.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The source's name or id
    name: String,
    #[command(flatten)]
    flags: Flags,
    /// Removes all selectors
    #[arg(long, conflicts_with = "selectors")]
    clear: bool,
}

impl Flags {
    /// What they say.
    pub(in crate::cli) fn selectors(&self) -> Selectors {
        let Self { container, title, body, intro, author, published_time, .. } = self.clone();
        let Self { section, keywords, image, exclude, .. } = self.clone();
        Selectors {
            container,
            title,
            body,
            intro,
            author,
            published_time,
            section,
            keywords,
            image,
            exclude,
        }
    }
}

/// Shows or replaces where the parts of a source's articles stand.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let selectors = args.flags.selectors();
    if selectors == Selectors::default() && !args.clear {
        let (source, _) = context.store().await?.source(&args.name).await?;
        let value = json!({ "source": source.spec.name, "selectors": source.spec.selectors });
        return context.out.emit(&value, |_| sentence(&source, ""));
    }
    save(&args.name, selectors, context).await
}

/// Keeps selectors, and says so.
pub(super) async fn save(
    name: &str,
    selectors: Selectors,
    context: &Context,
) -> Result<(), Failure> {
    let change = SourceChange::Selectors(Box::new(selectors));
    let source = context.store().await?.respecify(name, change).await?;
    context.out.done(&source, &sentence(&source, " from now on"))
}

fn sentence(source: &Source, since: &str) -> String {
    let how = match told(&source.spec.selectors) {
        Some(told) => format!("by {told}"),
        None => "without selectors".to_owned(),
    };
    text::one_line(&format!("articles of {} are read {how}{since}", source.spec.name))
}

/// What is set, as it was written; `None` when nothing is.
pub(super) fn told(selectors: &Selectors) -> Option<String> {
    let value = serde_json::to_value(selectors).ok()?;
    let shown = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => format!("`{text}`"),
        serde_json::Value::Array(items) => {
            let items = items.iter().filter_map(|item| item.as_str());
            items.map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let parts = value.as_object()?.iter().map(|(name, value)| format!("{name} {}", shown(value)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
