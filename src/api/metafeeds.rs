//! What was gathered, as feeds: any part of the articles as Atom, RSS or JSON Feed, page by page
//! (RFC 5005).

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use feedmill_formats::date::http_date;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::articles::{ListArticles, escaped};
use super::asked::Asked;
use super::listing::{place, told};
use super::problem::Problem;
use crate::model::{Article, Ts};
use crate::store::browse::Place;
use crate::store::browse::articles::{ArticleQuery, ListedArticle, articles};

/// Items of a page when nothing is said, and at the most.
const USUAL: usize = 50;
const MOST: usize = 1_000;
/// What a cursor begins with that leads back.
const BACK: char = '<';

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(as_atom)).routes(routes!(as_rss)).routes(routes!(as_json))
}

/// The articles as an Atom feed
#[utoipa::path(get, path = "/articles.atom", tag = "feeds of articles", params(ListArticles),
    responses((status = 200, body = String, content_type = "application/atom+xml"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such source")))]
async fn as_atom(
    State(api): State<Api>,
    headers: HeaderMap,
    Asked(asked): Asked<ListArticles>,
) -> Result<Response, Problem> {
    answer(&api, &headers, asked, "articles.atom", "application/atom+xml; charset=utf-8", atom)
        .await
}

/// The articles as an RSS feed
#[utoipa::path(get, path = "/articles.rss", tag = "feeds of articles", params(ListArticles),
    responses((status = 200, body = String, content_type = "application/rss+xml"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such source")))]
async fn as_rss(
    State(api): State<Api>,
    headers: HeaderMap,
    Asked(asked): Asked<ListArticles>,
) -> Result<Response, Problem> {
    answer(&api, &headers, asked, "articles.rss", "application/rss+xml; charset=utf-8", rss).await
}

/// The articles as a JSON Feed
#[utoipa::path(get, path = "/articles.json", tag = "feeds of articles", params(ListArticles),
    responses((status = 200, body = Object, content_type = "application/feed+json"),
        (status = 404, body = Problem, content_type = "application/problem+json",
            description = "There is no such source")))]
async fn as_json(
    State(api): State<Api>,
    headers: HeaderMap,
    Asked(asked): Asked<ListArticles>,
) -> Result<Response, Problem> {
    answer(&api, &headers, asked, "articles.json", "application/feed+json", json_feed).await
}

/// A page of articles, ready to be written.
struct Sheet {
    title: String,
    home: String,
    /// Where this page is, and those around it: `self`, `first`, `previous`, `next`, `hub`.
    links: Vec<(&'static str, String)>,
    updated: Ts,
    items: Vec<ListedArticle>,
}

impl Sheet {
    fn link(&self, rel: &str) -> Option<&str> {
        self.links.iter().find(|(one, _)| *one == rel).map(|(_, url)| url.as_str())
    }
}

async fn answer(
    api: &Api,
    headers: &HeaderMap,
    asked: ListArticles,
    name: &str,
    kind: &'static str,
    write: fn(&Sheet) -> String,
) -> Result<Response, Problem> {
    let sheet = sheet(api, headers, asked, name).await?;
    let links = sheet.links.iter().map(|(rel, url)| format!("<{url}>; rel=\"{rel}\""));
    let links = links.collect::<Vec<_>>().join(", ");
    let modified = http_time(sheet.updated);
    let mut told = HeaderMap::new();
    let texts = [(header::LINK, links.as_str()), (header::LAST_MODIFIED, modified.as_str())];
    for (name, text) in texts {
        told.extend(HeaderValue::from_str(text).map(|value| (name, value)));
    }
    if is_known(headers, sheet.updated) {
        return Ok((StatusCode::NOT_MODIFIED, told).into_response());
    }
    told.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok((told, write(&sheet)).into_response())
}

/// Whether the asker has it by its date; a tag, which is surer, is looked at elsewhere.
fn is_known(headers: &HeaderMap, updated: Ts) -> bool {
    let since = headers.get(header::IF_MODIFIED_SINCE).and_then(|since| since.to_str().ok());
    let since = since.and_then(http_date);
    !headers.contains_key(header::IF_NONE_MATCH)
        && since.is_some_and(|since| updated.ms() / 1_000 <= since.ms() / 1_000)
}

async fn sheet(
    api: &Api,
    headers: &HeaderMap,
    asked: ListArticles,
    name: &str,
) -> Result<Sheet, Problem> {
    let limit = asked.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::parameter("limit", format!("must be from 1 to {MOST}")));
    }
    let cursor = place::<String>(asked.cursor.as_deref())?;
    let (backwards, at) = match cursor.as_deref().map(|text| (text, text.strip_prefix(BACK))) {
        Some((_, Some(back))) => (true, Some(back)),
        Some((on, None)) => (false, Some(on)),
        None => (false, None),
    };
    let bad = |_| Problem::parameter("cursor", "is no place in this list");
    let after = at.map(str::parse::<Place>).transpose().map_err(bad)?;
    let query = asked.query(api).await?;
    let found = articles(&*api.store, &ArticleQuery { after, backwards, limit, ..query }).await?;
    let (items, more) = (found.items, found.next);
    let behind = items.last().map(|item| item.place);
    let (previous, next) = match (backwards, after) {
        (true, at) => {
            (items.first().map(|item| item.place).filter(|_| more.is_some()), behind.or(at))
        }
        (false, Some(at)) => (items.first().map_or(Some(at), |item| Some(item.place)), more),
        (false, None) => (None, more),
    };
    let base = base(api, headers);
    let to = |cursor: Option<String>| address(&base, name, &asked, cursor.as_deref());
    let mut links = vec![("self", to(asked.cursor.clone())), ("first", to(None))];
    links.extend(previous.map(|at| ("previous", to(Some(told(format!("{BACK}{at}")))))));
    links.extend(next.map(|at| ("next", to(Some(told(at))))));
    let hub = &api.config.api.hub;
    links.extend((!hub.is_empty()).then(|| ("hub", hub.clone())));
    let updated = items.iter().map(changed).max();
    Ok(Sheet {
        title: title(&asked),
        home: base,
        links,
        updated: updated.unwrap_or_default(),
        items,
    })
}

/// When what a feed says of an article last changed, as far as we saw.
fn changed(item: &ListedArticle) -> Ts {
    let row = &item.article;
    // A page that was only read again says the same.
    if row.revision > 1 { row.last_seen } else { row.first_seen }
}

/// The address under which we are reached.
fn base(api: &Api, headers: &HeaderMap) -> String {
    let public = api.config.api.public_url.trim_end_matches('/');
    if !public.is_empty() {
        return public.to_owned();
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // Only what can stand in an address is taken over.
    let fits = |host: &&str| url::Url::parse(&format!("http://{host}/")).is_ok();
    let fallback = api.address.to_string();
    format!("http://{}", host.filter(fits).unwrap_or(&fallback))
}

fn address(base: &str, name: &str, asked: &ListArticles, cursor: Option<&str>) -> String {
    let time = |at: Option<Ts>| at.map(|at| at.to_string());
    let parameters = [
        ("source", asked.source.clone()),
        ("category", asked.category.clone()),
        ("tag", asked.tag.clone()),
        ("language", asked.language.clone()),
        ("q", asked.q.clone()),
        ("since", time(asked.since)),
        ("until", time(asked.until)),
        ("duplicates", asked.duplicates.map(|it| it.to_string())),
        ("limit", asked.limit.map(|it| it.to_string())),
        ("cursor", cursor.map(str::to_owned)),
    ];
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
    match query.finish().as_str() {
        "" => format!("{base}/{name}"),
        query => format!("{base}/{name}?{query}"),
    }
}

fn title(asked: &ListArticles) -> String {
    let q = asked.q.as_ref().map(|q| format!("\u{201c}{q}\u{201d}"));
    let parts = [&asked.source, &asked.category, &asked.tag, &asked.language, &q];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    match parts.is_empty() {
        true => "Feedmill: all articles".to_owned(),
        false => format!("Feedmill: {}", parts.join(", ")),
    }
}

fn timestamp(at: Ts) -> Timestamp {
    Timestamp::from_millisecond(at.ms()).unwrap_or_default()
}

fn http_time(at: Ts) -> String {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp(at)).unwrap_or_default()
}

fn mail_time(at: Ts) -> String {
    DateTimePrinter::new().timestamp_to_string(&timestamp(at)).unwrap_or_default()
}

/// An element with text, when there is some.
fn element(name: &str, text: Option<&str>) -> String {
    text.map(|text| format!("<{name}>{}</{name}>", escaped(text))).unwrap_or_default()
}

/// When an article was published, as far as that is known.
fn published(item: &ListedArticle) -> Ts {
    item.article.article.published.unwrap_or(item.article.first_seen)
}

fn atom(sheet: &Sheet) -> String {
    let links: String = sheet
        .links
        .iter()
        .map(|(rel, url)| format!("<link rel=\"{rel}\" href=\"{}\"/>\n", escaped(url)))
        .collect();
    let entries: String = sheet.items.iter().map(atom_entry).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n\
         {}\n<id>{}</id>\n<updated>{}</updated>\n<generator>Feedmill</generator>\n\
         <author><name>Feedmill</name></author>\n{links}{entries}</feed>\n",
        element("title", Some(&sheet.title)),
        escaped(sheet.link("first").unwrap_or(&sheet.home)),
        sheet.updated,
    )
}

fn atom_entry(item: &ListedArticle) -> String {
    let Article { url, title, authors, tags, abstract_, language, .. } = &item.article.article;
    let updated = item.article.article.updated.unwrap_or_else(|| published(item));
    let authors: String = authors
        .iter()
        .map(|name| format!("<author>{}</author>", element("name", Some(name))))
        .collect();
    let tags: String =
        tags.iter().map(|tag| format!("<category term=\"{}\"/>", escaped(tag))).collect();
    let source = item.source.as_ref().map(|source| {
        let home = escaped(&source.spec.url);
        let title = element("title", Some(&source.spec.name));
        format!("<source><id>{home}</id>{title}<updated>{updated}</updated></source>")
    });
    let language =
        language.as_ref().map(|tag| format!(" xml:lang=\"{}\"", escaped(tag))).unwrap_or_default();
    format!(
        "<entry{language}>{}<id>{2}</id><link rel=\"alternate\" href=\"{2}\"/>\
         <published>{3}</published><updated>{1}</updated>{authors}{tags}{4}{5}</entry>\n",
        element("title", Some(title.as_deref().unwrap_or("(no title)"))),
        updated,
        escaped(url),
        published(item),
        element("summary", abstract_.as_deref()),
        source.unwrap_or_default(),
    )
}

fn rss(sheet: &Sheet) -> String {
    let links: String = sheet
        .links
        .iter()
        .map(|(rel, url)| format!("<atom:link rel=\"{rel}\" href=\"{}\"/>\n", escaped(url)))
        .collect();
    let items: String = sheet.items.iter().map(rss_item).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rss version=\"2.0\" \
         xmlns:atom=\"http://www.w3.org/2005/Atom\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\">\n\
         <channel>\n{}\n{}\n{}\n<lastBuildDate>{}</lastBuildDate>\n<generator>Feedmill</generator>\n\
         {links}{items}</channel>\n</rss>\n",
        element("title", Some(&sheet.title)),
        element("link", Some(&sheet.home)),
        element("description", Some("What Feedmill gathered")),
        mail_time(sheet.updated),
    )
}

fn rss_item(item: &ListedArticle) -> String {
    let Article { url, title, authors, tags, abstract_, .. } = &item.article.article;
    let authors: String = authors.iter().map(|name| element("dc:creator", Some(name))).collect();
    let tags: String = tags.iter().map(|tag| element("category", Some(tag))).collect();
    format!(
        "<item>{}<link>{2}</link><guid isPermaLink=\"true\">{2}</guid><pubDate>{1}</pubDate>\
         {authors}{tags}{3}</item>\n",
        element("title", Some(title.as_deref().unwrap_or("(no title)"))),
        mail_time(published(item)),
        escaped(url),
        element("description", abstract_.as_deref()),
    )
}

fn json_feed(sheet: &Sheet) -> String {
    let mut feed = json!({
        "version": "https://jsonfeed.org/version/1.1",
        "title": sheet.title,
        "home_page_url": sheet.home,
        "feed_url": sheet.link("self"),
        "items": sheet.items.iter().map(json_item).collect::<Vec<_>>(),
    });
    if let Some(fields) = feed.as_object_mut() {
        fields.extend(sheet.link("next").map(|url| ("next_url".to_owned(), json!(url))));
        let hub = sheet.link("hub").map(|url| json!([{ "type": "WebSub", "url": url }]));
        fields.extend(hub.map(|hubs| ("hubs".to_owned(), hubs)));
    }
    feed.to_string()
}

fn json_item(item: &ListedArticle) -> Value {
    let Article { url, title, authors, tags, abstract_, language, lead_image, updated, .. } =
        &item.article.article;
    let authors: Vec<Value> = authors.iter().map(|name| json!({ "name": name })).collect();
    let mut value = json!({
        "id": item.article.id,
        "url": url,
        "content_text": abstract_.as_deref().unwrap_or_default(),
        "date_published": published(item),
        "authors": authors,
        "tags": tags,
    });
    if let Some(fields) = value.as_object_mut() {
        let more = [
            ("title", title.as_ref().map(|it| json!(it))),
            ("summary", abstract_.as_ref().map(|it| json!(it))),
            ("language", language.as_ref().map(|it| json!(it))),
            ("image", lead_image.as_ref().map(|it| json!(it))),
            ("date_modified", updated.map(|it| json!(it))),
        ];
        fields.extend(more.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?))));
    }
    value
}
