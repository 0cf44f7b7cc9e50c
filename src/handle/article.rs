//! Article pages: the text and what is known about it.

use feedmill_formats::article::{self, NotArticle};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::rights::Rights;
use feedmill_formats::robots::Robots;
use feedmill_formats::{sniff, url as web};

use super::{Carried, Failure, House, fail, verdict};
use crate::model::{
    Article, ArticleFact, Code, FetchId, Kind, Known, Lease, NewTask, Next, Outcome, Response, Ts,
    UrlHash, Verdict,
};

#[derive(Debug)]
pub(super) struct Read {
    html: String,
    /// What the answer's headers say about its use.
    rights: Rights,
}

pub(super) fn read(
    response: &Response,
    body: &[u8],
    house: &House,
) -> Result<Read, (Code, String)> {
    let content_type = response.header("content-type");
    if let Some(other) = content_type.filter(|given| !is_html(given)) {
        return Err((Code::BadContentType, format!("{other} is not a page")));
    }
    // Before anything is parsed: a label is easily wrong.
    if let Some(form) = sniff::binary(body) {
        return Err((Code::BadContentType, format!("a {form} file is not a page")));
    }
    if let Some(wall) = verdict::walled(response, body) {
        return Err(wall);
    }
    let html = charset::decode(body, content_type, Markup::Html).text.into_owned();
    if html.trim().is_empty() {
        return Err((Code::Empty, "the page is empty".to_owned()));
    }
    if html.trim().chars().take(house.min_html_chars).count() < house.min_html_chars {
        let few = house.min_html_chars;
        return Err((Code::BadHtml, format!("fewer than {few} characters of markup")));
    }
    Ok(Read { html, rights: said_by_headers(response, house) })
}

fn said_by_headers(response: &Response, house: &House) -> Rights {
    let mut rights = Rights::default();
    for name in Rights::HEADERS {
        for value in response.exchange.headers.all(name) {
            rights.header(name, value, &house.robots_agent);
        }
    }
    rights
}

/// What the origin's robots.txt says about the use of this page.
fn said_by_robots(known: &Known, url: &str, house: &House) -> Rights {
    let Some(Verdict::Rules(text)) = known.robots.as_ref().map(|copy| &copy.verdict) else {
        return Rights::default();
    };
    let path = web::parse(url).map(|url| web::path_and_query(&url)).unwrap_or_default();
    Robots::parse(text.as_bytes()).rights(&house.robots_agent, &path)
}

fn is_html(content_type: &str) -> bool {
    let mime = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(mime.as_str(), "" | "text/html" | "application/xhtml+xml" | "text/plain")
}

pub(super) fn decide(
    lease: &Lease,
    read: &Read,
    carried: Carried,
    fetch: Option<FetchId>,
    known: &Known,
    at: Ts,
    house: &House,
) -> Outcome {
    let said = known.evidence.as_ref();
    let evidence = article::Evidence {
        title: said.and_then(|said| said.title.as_deref()),
        summary: said.and_then(|said| said.summary.as_deref()),
        published: said.and_then(|said| said.published),
        authors: said.map_or(&[], |said| said.authors.as_slice()),
        ..article::Evidence::default()
    };
    let found = match article::extract(&read.html, &carried.final_url, &evidence) {
        Ok(found) => found,
        Err(error) => {
            let code = match error {
                NotArticle::BadHtml => Code::BadHtml,
                NotArticle::Empty
                | NotArticle::Listing
                | NotArticle::SignIn
                | NotArticle::Challenge
                | NotArticle::Missing => Code::NotArticle,
                NotArticle::TooLarge => Code::TooLarge,
            };
            return fail(lease, &Failure::new(code, error.to_string()), known, at, house);
        }
    };
    let task = &lease.task;
    let id = web::parse(&carried.final_url)
        .map_or(task.url_hash, |url| UrlHash::of(&web::key(&url, &house.key)));
    let mut outcome = if id == task.url_hash {
        Outcome::new(Code::Ok, Next::Fetched, format!("{} words", found.word_count))
    } else {
        let mut outcome = Outcome::new(
            Code::Redirect,
            Next::Dead { code: Code::Redirect },
            format!("its article is kept under {}", carried.final_url),
        );
        outcome.settled = Some(NewTask {
            url: carried.final_url.clone(),
            kind: Kind::Article,
            origin: task.origin,
            source: task.source,
            base_priority: task.priority,
            depth: task.depth,
            redirects: 0,
            parent: Some(task.id),
            not_before: None,
        });
        outcome
    };
    let mut rights = read.rights.clone();
    rights.and(found.rights);
    rights.and(said_by_robots(known, &carried.final_url, house));
    outcome.validators = Some((carried.validators, carried.final_url.clone()));
    outcome.article = Some(ArticleFact {
        id,
        task: task.id,
        source: task.source,
        text: found.text,
        content_hash: found.content_hash,
        simhash: found.simhash,
        fetch,
        article: Article {
            url: carried.final_url,
            canonical_url: found.canonical_url,
            title: Some(found.title).filter(|title| !title.is_empty()),
            authors: found.authors,
            published: found.published,
            updated: found.updated,
            language: found.language,
            site_name: found.site_name,
            section: found.section,
            tags: found.tags,
            lead_image: found.lead_image,
            abstract_: found.abstract_,
            word_count: found.word_count,
            method: found.method.to_owned(),
            confidence: found.confidence,
            rights,
        },
    });
    outcome
}
