//! `/articles`: what was read.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use feedmill_formats::article::{self, markdown};
use feedmill_formats::simhash::simhash;
use feedmill_formats::url as web;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, At, Lines, Nothing};
use super::entries::Since;
use super::listing::{Page, Wanted, whole};
use super::problem::Problem;
use super::views::{ArticleView, ReferenceView, RevisionView};
use super::{Api, sources};
use crate::app::shelf::Shelf;
use crate::app::told::told_of;
use crate::handle;
use crate::model::{ArticleId, ArticleRow, PastForm, Source, SourceId, Ts};
use crate::store::Store;
use crate::store::browse::Found;
use crate::store::browse::articles::{ArticleQuery, ListedArticle, articles};
use crate::store::browse::sources::by_ids;

/// Foreign markup may do nothing and load nothing.
const INERT: &str = "default-src 'none'; sandbox";

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(html))
        .routes(routes!(as_markdown))
        .routes(routes!(revisions))
        .routes(routes!(revision))
        .routes(routes!(duplicates))
}

/// Which articles.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListArticles {
    /// Of the source with this name or id.
    pub(super) source: Option<String>,
    /// Of sources in this category.
    pub(super) category: Option<String>,
    /// Of sources with this tag.
    pub(super) tag: Option<String>,
    /// In this language: `en` takes `en-GB` as well.
    pub(super) language: Option<String>,
    /// With this in the title.
    pub(super) q: Option<String>,
    /// First seen at or after this time.
    #[param(value_type = Option<String>, format = DateTime)]
    pub(super) since: Option<Ts>,
    /// First seen before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    pub(super) until: Option<Ts>,
    /// Only those with the very text of an earlier one (true), or only the others (false).
    pub(super) duplicates: Option<bool>,
    /// 1 to 1000, 50 when nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<usize>,
    /// The `next` of the page before.
    pub(super) cursor: Option<String>,
}

impl ListArticles {
    /// What is asked, without its place. A name that nobody has is a mistake, not an empty list.
    pub(super) async fn query(&self, api: &Api) -> Result<ArticleQuery, Problem> {
        let source = sources::named(api, self.source.as_deref()).await?;
        Ok(ArticleQuery {
            source,
            category: self.category.clone(),
            tag: self.tag.clone(),
            language: self.language.clone(),
            title: self.q.clone(),
            since: self.since,
            until: self.until,
            duplicates: self.duplicates,
            ..ArticleQuery::default()
        })
    }
}

fn view(listed: ListedArticle) -> ArticleView {
    ArticleView::listed(listed.article, listed.source.as_ref())
}

/// Lists articles, newest first
#[utoipa::path(get, path = "/articles", tag = "articles", params(ListArticles),
    responses((status = 200, body = Page<ArticleView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such source")))]
async fn list(
    State(api): State<Api>,
    lines: Lines,
    Asked(asked): Asked<ListArticles>,
) -> Result<Response, Problem> {
    answer(api, lines, asked).await
}

async fn answer(api: Api, lines: Lines, asked: ListArticles) -> Result<Response, Problem> {
    let query = asked.query(&api).await?;
    let read = move |after, limit| {
        let (api, query) = (api.clone(), ArticleQuery { after, limit, ..query.clone() });
        async move {
            let Found { items, next } = articles(&*api.store, &query).await?;
            Ok((items.into_iter().map(view).collect(), next))
        }
    };
    Wanted { lines, limit: asked.limit, cursor: asked.cursor }.list(read).await
}

/// The articles of a source.
pub(super) async fn of_source(
    api: Api,
    lines: Lines,
    source: String,
    asked: Since,
) -> Result<Response, Problem> {
    let Since { since, until, limit, cursor } = asked;
    let source = Some(source);
    answer(api, lines, ListArticles { source, since, until, limit, cursor, ..Default::default() })
        .await
}

/// The id that somebody means by an id or an address.
fn meant(wanted: &str, store: &dyn Store) -> Result<ArticleId, Problem> {
    let unknown = || Problem::not_found("unknown_article", "no article has this id or address");
    wanted.parse().or_else(|_| {
        let url = web::parse(wanted).map_err(|_| unknown())?;
        Ok(ArticleId::of(&web::key(&url, &store.rules().key)))
    })
}

async fn find(api: &Api, wanted: &str) -> Result<(ArticleRow, String), Problem> {
    let id = meant(wanted, &*api.store)?;
    let found = api.store.article(id).await?;
    found.ok_or_else(|| Problem::not_found("unknown_article", "no article has this id or address"))
}

async fn owner(api: &Api, source: Option<SourceId>) -> Result<Option<Source>, Problem> {
    let Some(id) = source else { return Ok(None) };
    Ok(by_ids(&*api.store, &[id]).await?.remove(&id))
}

/// An article with its text, and who told of it.
#[derive(Debug, Serialize, ToSchema)]
struct ArticleDetail {
    #[serde(flatten)]
    article: ArticleView,
    /// Paragraphs with an empty line between them.
    text: String,
    references: Vec<ReferenceView>,
}

/// Shows an article by its id or its address
#[utoipa::path(get, path = "/articles/{id}", tag = "articles", params(("id" = String, Path,)),
    responses((status = 200, body = ArticleDetail), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such article")))]
async fn show(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Json<ArticleDetail>, Problem> {
    let (row, text) = find(&api, &id).await?;
    Ok(Json(detailed(&api, row, text).await?))
}

async fn detailed(api: &Api, row: ArticleRow, text: String) -> Result<ArticleDetail, Problem> {
    let references = told_of(&row, &*api.store).await?;
    let source = owner(api, row.source).await?;
    Ok(ArticleDetail {
        article: ArticleView::of(row, source.as_ref()),
        text,
        references: references.into_iter().map(ReferenceView::from).collect(),
    })
}

/// The body of an article as clean markup: read again in the page as it came, or its text when that is no
/// longer kept.
async fn clean_html(api: &Api, row: &ArticleRow, text: &str) -> Result<String, Problem> {
    let max_decoded = api.config.fetch.max_decoded.as_len();
    let shelf = Shelf { store: &*api.store, archive: &api.archive, max_decoded };
    let page = match row.fetch {
        Some(fetch) => shelf.of_fetch(fetch, row.id).await?,
        None => None,
    };
    let Some(page) = page else { return Ok(paragraphs(text)) };
    let selectors = owner(api, row.source).await?.map(|source| source.spec.selectors);
    let read = tokio::task::spawn_blocking(move || {
        let evidence = handle::evidence(&page.known, selectors.as_ref());
        article::extract(&page.html, &page.url, &evidence).ok().map(|found| found.html)
    });
    Ok(read.await.ok().flatten().unwrap_or_else(|| paragraphs(text)))
}

fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|part| format!("<p>{}</p>\n", escaped(part))).collect()
}

/// Text as it stands in markup.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML knows no others of these, and nobody means them.
            c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => safe.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// The body of an article as clean HTML
#[utoipa::path(get, path = "/articles/{id}/html", tag = "articles", params(("id" = String, Path,)),
    responses((status = 200, body = String, content_type = "text/html",
            description = "A few harmless elements"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such article")))]
async fn html(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let (row, text) = find(&api, &id).await?;
    let body = clean_html(&api, &row, &text).await?;
    let title = escaped(row.article.title.as_deref().unwrap_or_default());
    let page = format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n{body}");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(INERT)),
    ];
    Ok((headers, page).into_response())
}

/// The body of an article as Markdown
#[utoipa::path(get, path = "/articles/{id}/markdown", tag = "articles",
    params(("id" = String, Path,)),
    responses((status = 200, body = String, content_type = "text/markdown"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such article")))]
async fn as_markdown(
    State(api): State<Api>,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let (row, text) = find(&api, &id).await?;
    let html = clean_html(&api, &row, &text).await?;
    let kind = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
    Ok((kind, markdown(&html, Some(&row.article.url))).into_response())
}

/// Lists the forms that an article has had, the first one first
#[utoipa::path(get, path = "/articles/{id}/revisions", tag = "articles",
    params(("id" = String, Path,)),
    responses((status = 200, body = Page<RevisionView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such article")))]
async fn revisions(
    State(api): State<Api>,
    lines: Lines,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let forms = api.store.revisions(meant(&id, &*api.store)?).await?;
    if forms.is_empty() {
        return Err(Problem::not_found("unknown_article", "no article has this id or address"));
    }
    Ok(whole(lines, forms.into_iter().map(RevisionView::from).collect()))
}

/// Shows a form that an article has had
#[utoipa::path(get, path = "/articles/{id}/revisions/{revision}", tag = "articles",
    params(("id" = String, Path,), ("revision" = u32, Path,)),
    responses((status = 200, body = ArticleDetail), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such form")))]
async fn revision(
    State(api): State<Api>,
    At((id, revision)): At<(String, u32)>,
    _: Asked<Nothing>,
) -> Result<Json<ArticleDetail>, Problem> {
    let (row, text) = find(&api, &id).await?;
    if revision == row.revision {
        return Ok(Json(detailed(&api, row, text).await?));
    }
    let Some((form, text)) = api.store.past(row.id, revision).await? else {
        return Err(Problem::not_found("unknown_revision", "the article never had such a form"));
    };
    let PastForm { revision, article, content_hash, fetch, .. } = form;
    let simhash = simhash(&text);
    let row = ArticleRow { revision, article, content_hash, simhash, fetch, ..row };
    Ok(Json(detailed(&api, row, text).await?))
}

/// Lists all that tell the same as an article with the same words, the first one first
#[utoipa::path(get, path = "/articles/{id}/duplicates", tag = "articles",
    params(("id" = String, Path,)),
    responses((status = 200, body = Page<ArticleView>), (status = 404, body = Problem,
        content_type = "application/problem+json", description = "There is no such article")))]
async fn duplicates(
    State(api): State<Api>,
    lines: Lines,
    At(id): At<String>,
    _: Asked<Nothing>,
) -> Result<Response, Problem> {
    let rows = api.store.copies(meant(&id, &*api.store)?).await?;
    if rows.is_empty() {
        return Err(Problem::not_found("unknown_article", "no article has this id or address"));
    }
    let ids: Vec<SourceId> = rows.iter().filter_map(|row| row.source).collect();
    let sources = by_ids(&*api.store, &ids).await?;
    let items = rows.into_iter().map(|row| {
        let source = row.source.and_then(|id| sources.get(&id));
        ArticleView::listed(row, source)
    });
    Ok(whole(lines, items.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_inert_in_markup() {
        assert_eq!(
            paragraphs("a <b>\n\nc & \"d\"\u{1}"),
            "<p>a &lt;b&gt;</p>\n<p>c &amp; &quot;d&quot;\u{fffd}</p>\n"
        );
    }
}
