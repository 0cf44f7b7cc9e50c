//! The reply to a request, with a fault worked in. Pure: how it travels is left to the wire.

use std::borrow::Cow;

use crate::faults::{Fault, Mislabel, RetryAfter, Script};
use crate::gzip;
use crate::markup::http_date;
use crate::publisher::Publisher;
use crate::site::{self, Resource};
use crate::world::World;

const PAGE: &str = "text/html; charset=utf-8";

/// A request as read from the wire.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) host: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) keep_alive: bool,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Whether it asks only for what has changed.
    fn is_conditional(&self) -> bool {
        ["if-none-match", "if-modified-since"].iter().any(|name| self.header(name).is_some())
    }

    fn accepts_gzip(&self) -> bool {
        self.header("accept-encoding").is_some_and(|codings| {
            codings.split(',').any(|coding| {
                let coding = coding.replace(' ', "");
                coding == "gzip" || coding.starts_with("gzip;") && coding != "gzip;q=0"
            })
        })
    }
}

/// How the reply travels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Slow { chunk: usize, pause_ms: u64 },
    Reset,
    Truncate,
    Hang,
}

impl Delivery {
    fn under(fault: Option<&Fault>) -> Self {
        match fault {
            Some(&Fault::SlowBytes { chunk, pause_ms }) => Self::Slow { chunk, pause_ms },
            Some(Fault::Reset) => Self::Reset,
            Some(Fault::Truncate | Fault::Scripted(Script { cut: true, .. })) => Self::Truncate,
            Some(Fault::Hang) => Self::Hang,
            _ => Self::Whole,
        }
    }
}

/// Status, headers and body, and how to deliver them.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(Cow<'static, str>, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) delivery: Delivery,
    /// What Content-Length says; `None` leaves it out.
    pub(crate) declared_length: Option<usize>,
    pub(crate) retry_until: Option<i64>,
}

impl Reply {
    fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let declared_length = (status != 304).then_some(body.len());
        let mut headers = Vec::new();
        if status != 304 {
            headers.push(("Content-Type".into(), content_type.to_owned()));
        }
        Self {
            status,
            headers,
            body,
            delivery: Delivery::Whole,
            declared_length,
            retry_until: None,
        }
    }

    /// A short page that says no more than its status.
    fn brief(status: u16) -> Self {
        let page = format!("<html><body><h1>{status} {}</h1></body></html>", reason(status));
        Self::new(status, PAGE, page.into())
    }

    fn scripted(script: Script) -> Self {
        let mut reply = Self::new(script.status, "", script.body);
        reply.headers = script.headers.into_iter().map(|(n, v)| (n.into(), v)).collect();
        reply
    }

    fn redirect(status: u16, location: String) -> Self {
        let mut reply = Self::brief(status);
        reply.headers.push(("Location".into(), location));
        reply
    }

    /// Both forms of Retry-After count from now; the date is cut to whole seconds.
    fn retry_after(mut self, retry_after: RetryAfter, now: i64) -> Self {
        let (value, until) = match retry_after {
            RetryAfter::Seconds(seconds) => (seconds.to_string(), now + i64::from(seconds) * 1_000),
            RetryAfter::Date(seconds) => {
                let until = (now + i64::from(seconds) * 1_000).div_euclid(1_000) * 1_000;
                (http_date(until), until)
            }
        };
        self.headers.push(("Retry-After".into(), value));
        self.retry_until = Some(until);
        self
    }
}

/// What to answer, at this time, under this fault. `serial` differs from request to request.
pub(crate) fn reply(
    world: &World,
    request: &Request,
    fault: Option<Fault>,
    now: i64,
    serial: u64,
) -> Reply {
    let delivery = Delivery::under(fault.as_ref());
    let mut reply = match fault {
        Some(Fault::Status(status)) => Reply::brief(status),
        Some(Fault::TooManyRequests { retry_after }) => {
            Reply::brief(429).retry_after(retry_after, now)
        }
        Some(Fault::ServerError { status, retry_after: None }) => Reply::brief(status),
        Some(Fault::ServerError { status, retry_after: Some(retry_after) }) => {
            Reply::brief(status).retry_after(retry_after, now)
        }
        Some(Fault::RedirectTo(url)) => Reply::redirect(302, url),
        Some(Fault::MovedTo(url)) => Reply::redirect(301, url),
        Some(Fault::RedirectChain(hops)) if !is_hop(&request.target) => {
            Reply::redirect(302, hop_url(&request.host, &request.target, &hops.to_string()))
        }
        Some(Fault::RedirectLoop) if !is_hop(&request.target) => {
            Reply::redirect(302, hop_url(&request.host, &request.target, "ever"))
        }
        Some(Fault::HtmlInsteadOfFeed) => {
            Reply::new(200, PAGE, b"<html><body><p>Back soon.</p></body></html>".to_vec())
        }
        Some(Fault::ScriptedFrozen(_)) if request.is_conditional() => {
            Reply::new(304, "", Vec::new())
        }
        Some(Fault::Scripted(script) | Fault::ScriptedFrozen(script)) => Reply::scripted(script),
        other => served(world, request, other.as_ref(), now, serial),
    };
    reply.delivery = delivery;
    reply.headers.push(("Date".into(), http_date(now)));
    if request.method == "HEAD" {
        reply.body.clear();
    }
    reply
}

/// The truth as HTTP, bent by faults of content.
fn served(world: &World, request: &Request, fault: Option<&Fault>, now: i64, serial: u64) -> Reply {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Reply::brief(405);
    }
    if let Some(reply) = next_hop(request) {
        return reply;
    }
    let Some(site) = world.publisher(&request.host) else { return Reply::brief(421) };
    let Some(resource) = site::locate(world, site, &request.target, now) else {
        return Reply::brief(404);
    };
    let link = site::link_header(site, &resource);
    let salt = (fault == Some(&Fault::ChangedGuids) && resource.is_feed()).then_some(serial);
    let validators = resource.validators(world, site).filter(|_| salt.is_none());
    let (tags, since) = (request.header("if-none-match"), request.header("if-modified-since"));
    let frozen = fault == Some(&Fault::FrozenValidators) && request.is_conditional();
    let fresh = validators.as_ref().is_some_and(|it| it.match_request(tags, since));
    let mut reply = if frozen || fresh {
        Reply::new(304, "", Vec::new())
    } else {
        content(world, site, resource, request, fault, salt)
    };
    reply.headers.extend(link.map(|link| ("Link".into(), link)));
    if let Some(validators) = validators {
        reply.headers.push(("ETag".into(), validators.etag));
        reply.headers.push(("Last-Modified".into(), http_date(validators.modified)));
    }
    reply
}

fn content(
    world: &World,
    site: &Publisher,
    resource: Resource,
    request: &Request,
    fault: Option<&Fault>,
    salt: Option<u64>,
) -> Reply {
    let (content_type, mut body) = resource.render(world, site, salt);
    let mut content_type = content_type.to_owned();
    match fault {
        Some(Fault::Empty) => body.clear(),
        Some(Fault::WrongEncoding(Mislabel::Utf8AsLatin1)) => {
            content_type = content_type.replace("utf-8", "iso-8859-1");
        }
        Some(Fault::WrongEncoding(Mislabel::Latin1AsUtf8)) => {
            let text = String::from_utf8_lossy(&body);
            body = text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect();
        }
        _ => {}
    }
    let textual = content_type.contains("charset=");
    let broken = fault == Some(&Fault::BadGzip);
    let packed = broken || (textual && !body.is_empty() && request.accepts_gzip());
    if packed {
        body = gzip(&body);
    }
    if broken {
        // Behind the ten bytes of the header nothing makes sense any more.
        body.iter_mut().skip(10).for_each(|byte| *byte = !*byte);
    }
    let mut reply = Reply::new(200, &content_type, body);
    if packed {
        reply.headers.push(("Content-Encoding".into(), "gzip".to_owned()));
    }
    reply.headers.push(("Vary".into(), "Accept-Encoding".to_owned()));
    if fault == Some(&Fault::WrongContentLength) {
        reply.declared_length = Some(reply.body.len() / 2);
    }
    reply
}

/// Redirects go on by themselves once begun: the query says how many hops are left.
fn next_hop(request: &Request) -> Option<Reply> {
    let (path, query) = request.target.split_once('?')?;
    let (rest, hop) = match query.rsplit_once('&') {
        Some((rest, last)) => (format!("?{rest}"), last.strip_prefix("hop=")?),
        None => (String::new(), query.strip_prefix("hop=")?),
    };
    let further = |hop: &str| {
        Some(Reply::redirect(302, hop_url(&request.host, &format!("{path}{rest}"), hop)))
    };
    match hop {
        "ever" => further("again"),
        "again" => further("ever"),
        left => match left.parse::<u32>().ok()? {
            0 | 1 => None,
            left => further(&(left - 1).to_string()),
        },
    }
}

fn is_hop(target: &str) -> bool {
    target.contains("?hop=") || target.contains("&hop=")
}

fn hop_url(host: &str, target: &str, hop: &str) -> String {
    let separator = if target.contains('?') { '&' } else { '?' };
    format!("http://{host}{target}{separator}hop={hop}")
}

pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}
