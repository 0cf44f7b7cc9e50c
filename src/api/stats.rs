//! `/stats`: what was done, in figures and over time. They may be some seconds old: they are counted once
//! for all who ask.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::asked::{Asked, Nothing};
use super::frontier::QueueStats;
use super::memo::Memo;
use super::problem::Problem;
use super::sources::Standings;
use super::views::Time;
use crate::db::DbError;
use crate::model::Ts;
use crate::store::browse::figures::{
    Span, Stretch, Top, freshness, punctual, saved_bytes, series, top,
};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// A chart has about so many points.
const POINTS: i64 = 200;
/// Stretches are whole numbers of these, so that points stay where they are.
const STEPS: [i64; 9] =
    [10_000, 60_000, 300_000, 900_000, 1_800_000, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, DAY_MS];

/// Figures that are kept for a moment.
#[derive(Debug, Default)]
pub(super) struct Memos {
    pub(super) standings: Memo<(), Standings>,
    pub(super) queue: Memo<usize, QueueStats>,
    stats: Memo<(), Stats>,
    series: Memo<i64, Series>,
    top: Memo<(Top, i64, usize), Ranking>,
}

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(stats)).routes(routes!(over_time)).routes(routes!(ranking))
}

/// Everything that is kept, in figures.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TotalsView {
    sources: u64,
    entries: u64,
    articles: u64,
    /// Articles with the very text of an earlier one.
    duplicates: u64,
    requests: u64,
    not_modified: u64,
    bytes: u64,
    events: u64,
}

/// What an operator promises, over the last day.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Promises {
    /// 99 of 100 requests took at most so long.
    fetch_p99_ms: Option<u64>,
    fetches_day: u64,
    /// Requests that failed by no publisher's fault: our network, our limits, our program.
    failed_day: u64,
    failed_share: f64,
    /// Channels that are polled.
    feeds: u64,
    /// Those that were polled within twice the time that was chosen for them.
    feeds_in_time: u64,
    feeds_in_time_share: f64,
}

/// How long news takes from publication to discovery, over the last day.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Freshness {
    p50_s: Option<u64>,
    p90_s: Option<u64>,
}

/// What polls may cost.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BudgetView {
    /// Requests of channels in the last day.
    requests_day: u64,
    /// As many as are allowed; null for as many as it takes.
    limit_day: Option<f64>,
    /// The price of a request, in item-seconds.
    price: Option<f64>,
}

/// How things are.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Stats {
    at: Time,
    totals: TotalsView,
    slo: Promises,
    freshness: Freshness,
    budget: BudgetView,
    /// Bytes that conditional requests saved in the last day.
    saved_bytes_day: u64,
}

fn share(part: u64, all: u64, of_none: f64) -> f64 {
    if all == 0 { of_none } else { part as f64 / all as f64 }
}

/// Tells how things are
#[utoipa::path(get, path = "/stats", tag = "stats", responses((status = 200, body = Stats)))]
async fn stats(State(api): State<Api>, _: Asked<Nothing>) -> Result<Json<Stats>, Problem> {
    let asked = api.clone();
    let counted = async move {
        let (store, now) = (&*asked.store, asked.clock.now());
        let from = Ts::from_ms(now.ms() - DAY_MS);
        let totals = store.totals().await?;
        let span = Span { from, until: now, step_ms: DAY_MS, task: None };
        let mut day = Stretch::default();
        series(store, span).await?.iter().for_each(|part| day.add(part));
        let (feeds, in_time) = punctual(store, now).await?;
        let [p50_s, p90_s] = freshness(store, from, [0.5, 0.9]).await?;
        let demand = store.demand().await?;
        Ok::<_, DbError>(Stats {
            at: Time(now),
            totals: TotalsView {
                sources: totals.sources,
                entries: totals.entries,
                articles: totals.articles,
                duplicates: totals.duplicates,
                requests: totals.requests,
                not_modified: totals.not_modified,
                bytes: totals.bytes,
                events: totals.events,
            },
            slo: Promises {
                fetch_p99_ms: day.within(0.99),
                fetches_day: day.requests(),
                failed_day: day.on_us,
                failed_share: share(day.on_us, day.requests(), 0.0),
                feeds,
                feeds_in_time: in_time,
                feeds_in_time_share: share(in_time, feeds, 1.0),
            },
            freshness: Freshness { p50_s, p90_s },
            budget: BudgetView {
                requests_day: demand.made,
                limit_day: asked.config.schedule.budget.per_day(),
                price: demand.price.map(|price| price.value),
            },
            saved_bytes_day: saved_bytes(store, from).await?,
        })
    };
    Ok(Json(api.memo.stats.get(&api.workers, (), counted).await?))
}

/// What was done in a stretch of time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Point {
    /// When it began.
    at: Time,
    polls: u64,
    ok: u64,
    not_modified: u64,
    errors: u64,
    bytes: u64,
    /// About how many bytes conditional requests saved.
    saved_bytes: u64,
    p50_ms: Option<u64>,
    p99_ms: Option<u64>,
    entries: u64,
    articles: u64,
}

impl Point {
    /// The points of a chart; `saved` is about what an answer that nothing changed saved.
    pub(super) fn all(stretches: &[Stretch], span: Span, saved: u64) -> Vec<Self> {
        let at = (0..).map(|step: i64| Ts::from_ms(span.from.ms() + step * span.step_ms));
        let point = |(at, part): (Ts, &Stretch)| Self {
            at: Time(at),
            polls: part.requests(),
            ok: part.ok,
            not_modified: part.not_modified,
            errors: part.errors,
            bytes: part.bytes,
            saved_bytes: part.not_modified.saturating_mul(saved),
            p50_ms: part.within(0.5),
            p99_ms: part.within(0.99),
            entries: part.entries,
            articles: part.articles,
        };
        at.zip(stretches).map(point).collect()
    }
}

/// What was done over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Series {
    pub(super) from: Time,
    /// How long a stretch is.
    pub(super) bucket_ms: i64,
    pub(super) points: Vec<Point>,
}

/// The last hours in stretches that make a chart: their beginning, their end, and how long each is.
pub(super) fn step_for(hours: i64, now: Ts) -> (Ts, Ts, i64) {
    let whole = hours * HOUR_MS;
    let step = STEPS.into_iter().find(|step| whole / step <= POINTS).unwrap_or(DAY_MS);
    let until = (now.ms() / step + 1) * step;
    (Ts::from_ms((until - whole).max(0)), Ts::from_ms(until), step)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AskSeries {
    /// How many hours back, 1 to 2160; 24 when nothing is said.
    #[param(minimum = 1, maximum = 2160)]
    hours: Option<i64>,
}

fn hours(asked: Option<i64>) -> Result<i64, Problem> {
    match asked.unwrap_or(24) {
        hours @ 1..=2160 => Ok(hours),
        _ => Err(Problem::parameter("hours", "must be from 1 to 2160")),
    }
}

/// Tells what was done over time
#[utoipa::path(get, path = "/stats/series", tag = "stats", params(AskSeries),
    responses((status = 200, body = Series)))]
async fn over_time(
    State(api): State<Api>,
    Asked(asked): Asked<AskSeries>,
) -> Result<Json<Series>, Problem> {
    let hours = hours(asked.hours)?;
    let of = api.clone();
    let counted = async move {
        let (from, until, step_ms) = step_for(hours, of.clock.now());
        let span = Span { from, until, step_ms, task: None };
        let stretches = series(&*of.store, span).await?;
        let unchanged: u64 = stretches.iter().map(|part| part.not_modified).sum();
        let saved = saved_bytes(&*of.store, from).await? / unchanged.max(1);
        let points = Point::all(&stretches, span, saved);
        Ok::<_, DbError>(Series { from: Time(from), bucket_ms: step_ms, points })
    };
    Ok(Json(api.memo.series.get(&api.workers, hours, counted).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AskTop {
    /// feeds (by new entries), codes or hosts (of requests that failed).
    #[param(inline)]
    by: By,
    /// How many hours back, 1 to 2160; 24 when nothing is said.
    #[param(minimum = 1, maximum = 2160)]
    hours: Option<i64>,
    /// 1 to 100, 10 when nothing is said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// What is ranked.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum By {
    Feeds,
    Codes,
    Hosts,
}

/// Something there is much of.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Ranked {
    name: String,
    id: Option<String>,
    count: u64,
}

/// What there is most of.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Ranking {
    items: Vec<Ranked>,
}

/// Tells what there was most of
#[utoipa::path(get, path = "/stats/top", tag = "stats", params(AskTop),
    responses((status = 200, body = Ranking)))]
async fn ranking(
    State(api): State<Api>,
    Asked(asked): Asked<AskTop>,
) -> Result<Json<Ranking>, Problem> {
    let by = match asked.by {
        By::Feeds => Top::Feeds,
        By::Codes => Top::Codes,
        By::Hosts => Top::Hosts,
    };
    let (hours, limit) = (hours(asked.hours)?, asked.limit.unwrap_or(10));
    if !(1..=100).contains(&limit) {
        return Err(Problem::parameter("limit", "must be from 1 to 100"));
    }
    let of = api.clone();
    let counted = async move {
        let from = Ts::from_ms((of.clock.now().ms() - hours * HOUR_MS).max(0));
        let items = top(&*of.store, by, from, limit).await?;
        let items = items.into_iter();
        let items = items.map(|it| Ranked { name: it.name, id: it.id, count: it.count });
        Ok::<_, DbError>(Ranking { items: items.collect() })
    };
    Ok(Json(api.memo.top.get(&api.workers, (by, hours, limit), counted).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_few_hundred_points_that_stay_where_they_are() {
        let now = Ts::from_ms(1_800_000_123_456);
        for hours in [1, 2, 24, 168, 720, 2160] {
            let (from, until, step) = step_for(hours, now);
            let points = (until.ms() - from.ms()) / step;
            assert!((20..=POINTS).contains(&points), "{hours}: {points}");
            assert!(until > now && from.ms() % step == 0, "{hours}");
        }
    }
}
