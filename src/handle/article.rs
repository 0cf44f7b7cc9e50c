//! Article pages: the text and what is known about it.

use feedmill_formats::article::{self, Evidence, NotArticle, Selectors};
use feedmill_formats::charset::{self, Markup};
use feedmill_formats::rights::Rights;
use feedmill_formats::robots::Robots;
use feedmill_formats::sketch::Sketch;
use feedmill_formats::{sniff, url as web};

use super::{Carried, Failure, House, fail, limits, listing, refetch, verdict};
use crate::model::{
    Article, ArticleFact, Ask, Code, FetchId, Kind, Known, Lease, NewEvent, NewTask, Next, Outcome,
    Response, Ts, UrlHash, Verdict,
};

#[derive(Debug)]
pub(super) struct Read {
    pub(super) html: String,
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

/// What has to be known before a page can be read.
pub(super) fn asks(lease: &Lease, carried: &Carried, ask: &mut Ask) {
    ask.evidence = Some(lease.task.url_hash);
    let url = web::parse(&carried.final_url).ok();
    ask.robots = url.as_ref().map(web::origin);
    ask.frame_of = url.as_ref().map(web::host);
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
    if !Robots::mentions_use(text) {
        return Rights::default();
    }
    let path = web::parse(url).map(|url| web::path_and_query(&url)).unwrap_or_default();
    Robots::parse(text.as_bytes()).rights(&house.robots_agent, &path)
}

fn is_html(content_type: &str) -> bool {
    let mime = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(mime.as_str(), "" | "text/html" | "application/xhtml+xml" | "text/plain")
}

/// What is known of an article before its page is read.
#[must_use]
pub fn evidence<'a>(known: &'a Known, selectors: Option<&'a Selectors>) -> Evidence<'a> {
    let said = known.evidence.as_ref();
    Evidence {
        title: said.and_then(|said| said.title.as_deref()),
        summary: said.and_then(|said| said.summary.as_deref()),
        content: said.and_then(|said| said.content.as_deref()),
        published: said.and_then(|said| said.published),
        authors: said.map_or(&[], |said| said.authors.as_slice()),
        repeated: Some(&known.repeated),
        selectors,
    }
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
    let selectors = lease.source.as_ref().map(|source| &source.spec.selectors);
    let evidence = evidence(known, selectors);
    let found = match article::extract(&read.html, &carried.final_url, &evidence) {
        Ok(found) => found,
        Err(error) => {
            let code = match error {
                NotArticle::BadHtml => Code::BadHtml,
                NotArticle::Empty => Code::NotArticle,
                NotArticle::Listing => Code::Listing,
                NotArticle::SignIn => Code::SignIn,
                NotArticle::Challenge => Code::BlockedByWall,
                NotArticle::Missing => Code::SoftNotFound,
                NotArticle::TooLarge => Code::TooLarge,
            };
            if lease.task.kind == Kind::Listing {
                // It said that it is an article: it is no list to come back to.
                return Outcome::new(code, Next::Dead { code }, error.to_string());
            }
            let failure = Failure::new(code, error.to_string());
            let mut outcome = fail(lease, &failure, known, at, house);
            if matches!(code, Code::Listing | Code::NotArticle) {
                outcome.discovered.extend(listing::misjudged(lease, house));
            }
            return outcome;
        }
    };
    let mut rights = read.rights.clone();
    rights.and(found.rights);
    rights.and(said_by_robots(known, &carried.final_url, house));
    let task = &lease.task;
    let stays = house.redirects.stays(carried.for_good);
    let at_home = if stays { task.url.clone() } else { carried.final_url.clone() };
    let mut article = Article {
        url: at_home,
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
        cut: Vec::new(),
    };
    let mut text = found.text;
    limits::article(&mut article, &mut text);
    let source = lease.source.as_ref().map(|source| &source.spec);
    if let Some(reason) = house.validation.reject(&article, source, at) {
        return rejected(lease, &reason);
    }
    let left_out = house.validation.believe_dates(&mut article, at);
    let last = web::parse(&carried.final_url).ok().filter(|_| !stays);
    let id = last.map_or(task.url_hash, |url| UrlHash::of(&web::key(&url, &house.key)));
    let mut outcome = placed(lease, id, &carried.final_url, found.word_count, at, house);
    outcome.reason.extend(left_out);
    outcome.validators = Some((carried.validators, carried.final_url));
    outcome.article = Some(ArticleFact {
        id,
        task: task.id,
        source: task.source,
        sketch: Sketch::of(&text),
        text,
        content_hash: found.content_hash,
        simhash: found.simhash,
        fetch,
        prints: found.prints,
        article,
    });
    outcome
}

/// Where the task goes whose article is kept: it is another task's when redirects led elsewhere.
fn placed(lease: &Lease, id: UrlHash, url: &str, words: u32, at: Ts, house: &House) -> Outcome {
    let task = &lease.task;
    if id == task.url_hash && task.kind == Kind::Article {
        let next = refetch::after_reading(lease, at, house);
        return Outcome::new(Code::Ok, next, format!("{words} words"));
    }
    let mut outcome = Outcome::new(
        Code::Redirect,
        Next::Dead { code: Code::Redirect },
        format!("its article is kept under {url}"),
    );
    outcome.settled = Some(NewTask {
        url: url.to_owned(),
        kind: Kind::Article,
        origin: task.origin,
        source: task.source,
        base_priority: task.priority,
        depth: task.depth,
        redirects: 0,
        parent: Some(task.id),
        not_before: None,
        refetch: None,
    });
    outcome
}

/// The outcome when an article is turned away. No validators are kept: under other rules it is to be
/// read again.
fn rejected(lease: &Lease, reason: &str) -> Outcome {
    let code = Code::Rejected;
    let mut outcome = Outcome::new(code, Next::Dead { code }, reason);
    outcome.events.extend(NewEvent::given_up(&lease.task, code, reason));
    outcome
}
