//! When sources are polled, and what failures mean for that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Budget, Span};

/// When sources are polled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// How the next poll is chosen where a source names no interval: "value" polls when the delay
    /// of undiscovered news is worth a request, "ewma" follows the time between items, "fixed" polls
    /// at the default interval.
    pub policy: Policy,
    /// Requests that polls under "value" may cost, such as "5000/day" or "300/hour". Empty for no
    /// budget: a request then has a fixed price, and busy feeds are polled about four times an hour.
    pub budget: Budget,
    /// Interval of a feed under "fixed", and the first one under "ewma".
    pub default_interval: Span,
    /// Interval of a sitemap under "fixed", and until it has shown what it yields.
    pub sitemap_interval: Span,
    /// No source is polled more often than this, unless it has a limit of its own.
    pub min_interval: Span,
    /// Every source is polled at least this often; one that was silent for 90 days once a week.
    pub max_interval: Span,
    /// Share of an interval by which a poll may move, so that polls spread out (0 to 0.5).
    pub jitter: f64,
    /// Whether that never makes an interval shorter than `min_interval`. Without it polls move both
    /// ways; what a server asked for is kept to in any case.
    pub jitter_respects_min: bool,
    /// Under "ewma", what an interval is multiplied with when nothing was new (1 to 10)…
    pub ewma_up: f64,
    /// …and when something was (0.1 to 1).
    pub ewma_down: f64,
    /// Under "ewma", the weight of the latest time between two items (0 to 1)…
    pub ewma_alpha: f64,
    /// …and the weight of the smoothed time in the next interval (0 to 1).
    pub ewma_blend: f64,
    /// What happens to a channel that fails too often: "cooldown" only probes it, with long pauses,
    /// until a probe goes well; `keep_retrying` tries it at least daily; "disable" gives it up until
    /// `source enable`.
    pub on_failure_threshold: OnThreshold,
    /// How many failures in a row are too many, of those that may pass: timeouts, failing servers and
    /// networks (1 to 1000). Other classes have numbers of their own (docs/OUTCOMES.md).
    pub failure_threshold: u32,
    /// When a channel fails in a way that mostly does not pass (404, no feed any more) the same
    /// happens: `after_a_few` times, `at_once`, or "never".
    pub disable_on_permanent: OnPermanent,
    /// How long a channel waits after a failure: "table" by the kind of failure (docs/OUTCOMES.md),
    /// "interval" its interval times `backoff_base` for each failure, "none" its interval. Who asks
    /// for a slower pace gets it in any case.
    pub backoff: Backoff,
    /// What a wait is multiplied with for each further failure (1 to 10).
    pub backoff_base: f64,
    /// The longest wait after failures, as long as the channel is not disabled.
    pub backoff_cap: Span,
}

/// How the next poll of a source is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    #[default]
    Value,
    Ewma,
    Fixed,
}

/// What happens to a channel that fails too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnThreshold {
    #[default]
    Cooldown,
    KeepRetrying,
    Disable,
}

/// When a failure that does not pass is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnPermanent {
    #[default]
    AfterAFew,
    AtOnce,
    Never,
}

/// How long a channel waits after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    #[default]
    Table,
    Interval,
    None,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            policy: Policy::Value,
            budget: Budget::default(),
            default_interval: Span::minutes(15),
            sitemap_interval: Span::hours(6),
            min_interval: Span::minutes(5),
            max_interval: Span::hours(24),
            jitter: 0.05,
            jitter_respects_min: true,
            ewma_up: 1.25,
            ewma_down: 0.75,
            ewma_alpha: 0.3,
            ewma_blend: 0.5,
            on_failure_threshold: OnThreshold::Cooldown,
            failure_threshold: 10,
            disable_on_permanent: OnPermanent::AfterAFew,
            backoff: Backoff::Table,
            backoff_base: 2.0,
            backoff_cap: Span::hours(24),
        }
    }
}
