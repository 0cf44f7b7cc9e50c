//! `/sources`: the publishers that are followed.

mod edit;
mod lists;
mod pace;

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use edit::again;

use super::asked::{Asked, At, Lines, Nothing};
use super::listing::{Page, Wanted, cut};
use super::problem::Problem;
use super::views::{DiscoveryView, FeedView, SourceView, word};
use super::{Api, articles, entries};
use crate::app::longest_interval;
use crate::app::standing::{AsOf, Group, standing};
use crate::db::DbError;
use crate::frontier::TaskFilter;
use crate::model::{Ask, Code, Discovery, IngestionMode, Kind, Source, SourceId};
use crate::store::Store;
use crate::store::browse::damaged::damaged_sources;
use crate::store::browse::sources::{Channel, ChannelQuery, SourceQuery, channels, sources};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, edit::create))
        .routes(routes!(standings))
        .routes(routes!(lists::export))
        .routes(routes!(lists::import))
        .routes(routes!(edit::discover))
        .routes(routes!(show, edit::change, edit::remove))
        .routes(routes!(edit::enable))
        .routes(routes!(edit::disable))
        .routes(routes!(edit::refetch))
        .routes(routes!(pace::show, pace::forget))
        .routes(routes!(edit::test))
        .routes(routes!(its_entries))
        .routes(routes!(its_articles))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListSources {
    /// With this in name or home page.
    q: Option<String>,
    category: Option<String>,
    tag: Option<String>,
    /// Followed, or not.
    enabled: Option<bool>,
    /// feed, spider or both.
    #[param(value_type = Option<String>)]
    mode: Option<IngestionMode>,
    /// name, created, -name or -created.
    sort: Option<String>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

impl ListSources {
    fn query(&self) -> Result<SourceQuery, Problem> {
        let (by_age, descending) = match self.sort.as_deref() {
            None | Some("name") => (false, false),
            Some("-name") => (false, true),
            Some("created") => (true, false),
            Some("-created") => (true, true),
            Some(_) => {
                return Err(Problem::parameter("sort", "is name, created, -name or -created"));
            }
        };
        Ok(SourceQuery {
            search: self.q.clone(),
            category: self.category.clone(),
            tag: self.tag.clone(),
            enabled: self.enabled,
            mode: self.mode,
            by_age,
            descending,
            ..SourceQuery::default()
        })
    }
}

/// Lists sources
#[utoipa::path(get, path = "/sources", tag = "sources", params(ListSources),
    responses((status = 200, body = Page<SourceView>)))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListSources>,
) -> Result<Response, Problem> {
    let query = asked.query()?;
    let wanted = Wanted { lines, limit: asked.limit, cursor: asked.cursor };
    let read = move |after, limit| {
        let query = SourceQuery { after, limit: limit + 1, ..query.clone() };
        let api = api.clone();
        async move {
            let found = sources(&*api.store, &query).await?;
            let behind = |source: &Source| match query.by_age {
                true => source.id.0.to_string(),
                false => source.spec.name.clone(),
            };
            let (shown, next) = cut(found, limit, behind, |source| source);
            let (own, searches) = around(&*api.store, &shown).await?;
            let as_of = as_of(&api).await?;
            let items = shown.iter().map(|source| {
                let own = own.get(&source.id).map_or(&[][..], Vec::as_slice);
                SourceView::of(source, own, searches.get(&source.id), &as_of)
            });
            Ok((items.collect(), next))
        }
    };
    wanted.list(read).await
}

type Own = HashMap<SourceId, Vec<Channel>>;
type Searches = HashMap<SourceId, Discovery>;

/// The source that is named, when one is. A name that nobody has is a mistake, not an empty list.
pub(super) async fn named(api: &Api, name: Option<&str>) -> Result<Option<SourceId>, Problem> {
    match name {
        Some(name) => Ok(Some(api.store.source(name).await?.0.id)),
        None => Ok(None),
    }
}

/// The channels of sources, and the searches of those that have none.
async fn around(store: &dyn Store, of: &[Source]) -> Result<(Own, Searches), DbError> {
    let mut own = Own::new();
    if of.is_empty() {
        return Ok((own, Searches::new()));
    }
    let query = ChannelQuery {
        sources: of.iter().map(|source| source.id).collect(),
        limit: usize::MAX,
        ..ChannelQuery::default()
    };
    for channel in channels(store, &query).await? {
        own.entry(channel.state.source).or_default().push(channel);
    }
    let mut searches = Searches::new();
    for source in of.iter().filter(|source| source.enabled() && !own.contains_key(&source.id)) {
        let ask = Ask { discovery: Some(source.id), ..Ask::default() };
        searches.extend(store.lookup(ask).await?.discovery.map(|search| (source.id, search)));
    }
    Ok((own, searches))
}

/// What health is told by.
async fn as_of(api: &Api) -> Result<AsOf, DbError> {
    let max_interval = longest_interval(&api.config);
    AsOf::now(&api.clock, &*api.store, max_interval).await
}

/// A source with its channels.
async fn viewed(api: &Api, source: &Source) -> Result<SourceView, DbError> {
    let (mut own, searches) = around(&*api.store, std::slice::from_ref(source)).await?;
    let own = own.remove(&source.id).unwrap_or_default();
    let as_of = as_of(api).await?;
    Ok(SourceView::of(source, &own, searches.get(&source.id), &as_of))
}

/// A source with all that is known of it.
#[derive(Debug, Serialize, ToSchema)]
struct SourceDetail {
    #[serde(flatten)]
    source: SourceView,
    /// Its feeds, sitemaps and pages that are polled.
    channels_detail: Vec<FeedView>,
    /// The search for its channels.
    discovery: Option<DiscoveryView>,
    /// Pages of it that were turned away.
    rejected: u64,
    /// Pages that were walked to find articles.
    walked: u64,
}

/// Shows a source by its id or name
#[utoipa::path(get, path = "/sources/{id}", tag = "sources", params(("id" = String, Path,)),
    responses((status = 200, body = SourceDetail), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn show(
    State(api): State<Api>,
    At(name): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<SourceDetail>, Problem> {
    Ok(Json(detail(&api, &name).await?))
}

async fn detail(api: &Api, name: &str) -> Result<SourceDetail, Problem> {
    let store = &*api.store;
    let (source, _) = store.source(name).await?;
    let query =
        ChannelQuery { sources: vec![source.id], limit: usize::MAX, ..ChannelQuery::default() };
    let own = channels(store, &query).await?;
    let ask = Ask { discovery: Some(source.id), ..Ask::default() };
    let search = store.lookup(ask).await?.discovery;
    let count = |kind, code| TaskFilter {
        source: Some(source.uuid.clone()),
        kind: Some(kind),
        code,
        ..TaskFilter::default()
    };
    let rejected = store.count(count(Kind::Article, Some(Code::Rejected))).await?;
    let walked = store.count(count(Kind::Listing, None)).await?;
    let as_of = as_of(api).await?;
    Ok(SourceDetail {
        source: SourceView::of(&source, &own, search.as_ref(), &as_of),
        channels_detail: own.into_iter().map(FeedView::from).collect(),
        discovery: search.as_ref().map(DiscoveryView::from),
        rejected,
        walked,
    })
}

/// Sources by how they do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Standings {
    sources: usize,
    /// By standing: failing, blocked, `over_quota`, late, `never_fetched`, disabled, healthy.
    counts: std::collections::BTreeMap<String, usize>,
    /// Sources whose rows are damaged: they are in no other count.
    damaged: u64,
}

/// Counts sources by how they do
#[utoipa::path(get, path = "/sources/standings", tag = "sources",
    responses((status = 200, body = Standings)))]
async fn standings(State(api): State<Api>, _: Asked<Nothing>) -> Result<Json<Standings>, Problem> {
    let of = api.clone();
    let counted = async move {
        let store = &*of.store;
        let (sources, channels) = (store.sources().await?, store.channels().await?);
        let mut own: HashMap<SourceId, Vec<_>> = HashMap::new();
        for channel in &channels {
            own.entry(channel.source).or_default().push(channel);
        }
        let mut counts: std::collections::BTreeMap<_, _> =
            Group::ALL.iter().map(|group| (word(*group), 0)).collect();
        let as_of = as_of(&of).await?;
        for source in &sources {
            let own = own.get(&source.id).map_or(&[][..], Vec::as_slice);
            *counts.entry(word(standing(source, own, None, &as_of).group)).or_default() += 1;
        }
        let damaged = damaged_sources(store).await?;
        Ok::<_, DbError>(Standings { sources: sources.len(), counts, damaged })
    };
    Ok(Json(api.memo.standings.get(&api.workers, (), counted).await?))
}

/// Lists the entries of a source's feeds, newest first
#[utoipa::path(get, path = "/sources/{id}/entries", tag = "sources",
    params(("id" = String, Path,), entries::Since),
    responses((status = 200, body = Page<super::views::EntryView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn its_entries(
    State(api): State<Api>,
    lines: Lines,
    At(name): At<String>,
    Asked(asked): Asked<entries::Since>,
) -> Result<Response, Problem> {
    let (source, _) = api.store.source(&name).await?;
    entries::answer(api, lines, asked, None, Some(source.id)).await
}

/// Lists the articles of a source, newest first
#[utoipa::path(get, path = "/sources/{id}/articles", tag = "sources",
    params(("id" = String, Path,), entries::Since),
    responses((status = 200, body = Page<super::views::ArticleView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn its_articles(
    State(api): State<Api>,
    lines: Lines,
    At(name): At<String>,
    Asked(asked): Asked<entries::Since>,
) -> Result<Response, Problem> {
    articles::of_source(api, lines, name, asked).await
}
