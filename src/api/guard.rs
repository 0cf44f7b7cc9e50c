//! Who may do what: the one place where requests are let in, and what all answers carry.
//!
//! In this order: the name by which we were called (against rebinding of names), how often somebody asks,
//! where a web page that asks came from, whose token it is, and what that may be used for. What changes
//! something is written down. There are no cookies, so that a browser never sends a right by itself.
//!
//! Without a token, programs on this machine may read and write where `api.open_on_loopback` says so.
//! The scope `admin` needs a token, but on the Unix socket.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::local::NotLocal;
use super::local_user::LocalUser;
use super::login::Login;
use super::problem::Problem;
use super::socket::SocketPeer;
use super::{Api, body, etag, health, local, logins};
use crate::config;
use crate::model::Ts;
use crate::store::gate::{self, AuditRow, Scope};

/// Addresses whose requests are counted, before the quiet ones are forgotten.
const COUNTED: usize = 10_000;
/// How much more than the average may come at once.
const BURST: f64 = 10.0;
/// The use of a token is noted once in so many milliseconds.
const NOTED_EVERY: i64 = 60_000;

/// What pages may load: their own scripts, styles and data, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) name: String,
    pub(super) scope: Scope,
    /// No token was needed.
    pub(super) open: bool,
}

/// Who may use a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody.
    Everybody,
    /// Whoever has at least this scope.
    Scope(Scope),
}

/// Who may use a path with a method. The path is the pattern that the router knows.
pub(super) fn access(method: &str, path: &str) -> Access {
    const OPEN: &[&str] = &["/healthz", "/readyz", "/openapi.json", "/bot"];
    if super::web::is_page(path) {
        return Access::Everybody;
    }
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    let looks = matches!(method, "GET" | "HEAD" | "OPTIONS");
    let admin = path == "/audit"
        || path == "/tokens"
        || path.starts_with("/takedowns")
        || (!looks && (path == "/config" || path.starts_with("/config/")));
    match (admin, looks) {
        _ if OPEN.contains(&path) => Access::Everybody,
        (true, _) => Access::Scope(Scope::Admin),
        (false, true) => Access::Scope(Scope::Read),
        (false, false) => Access::Scope(Scope::Write),
    }
}

/// What the guard knows and remembers.
#[derive(Debug)]
pub(super) struct Guard {
    /// Local programs need no token to read and write.
    open: bool,
    /// Where we listen.
    address: SocketAddr,
    /// The token of the login link.
    pub(super) login: Login,
    /// The names by which we may be called; all when there are none.
    names: Vec<String>,
    origins: Vec<String>,
    /// Requests a second from one address; 0 for any number.
    rate: f64,
    budgets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
    noted: Mutex<HashMap<String, Ts>>,
}

impl Guard {
    pub(super) fn new(config: &config::Api, address: SocketAddr) -> Self {
        let local = address.ip().is_loopback();
        let mut names = Vec::new();
        if local {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
            names.push(address.ip().to_string());
            let public = url::Url::parse(&config.public_url).ok();
            names.extend(public.and_then(|url| url.host_str().map(str::to_ascii_lowercase)));
        }
        Self {
            open: local && config.open_on_loopback,
            address,
            login: Login::default(),
            names,
            origins: config.cors_origins.clone(),
            rate: f64::from(config.rate_limit),
            budgets: Mutex::default(),
            noted: Mutex::default(),
        }
    }

    /// Whether we are meant: a page that had its own name lead here must not reach us.
    fn is_called(&self, headers: &HeaderMap) -> bool {
        let (name, _) = local::split(local::sole_host(headers).unwrap_or_default());
        self.names.is_empty() || self.names.contains(&name.to_ascii_lowercase())
    }

    /// Whether an address may ask now; if not, in how many seconds.
    fn spend(&self, who: IpAddr, now: Instant) -> Result<(), u64> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let full = self.rate * BURST;
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |(left, since): &(f64, Instant)| {
            full.min(left + now.duration_since(*since).as_secs_f64() * self.rate)
        };
        if budgets.len() >= COUNTED && !budgets.contains_key(&who) {
            budgets.retain(|_, budget| left(budget) < full);
        }
        let budget = budgets.entry(who).or_insert((full, now));
        *budget = (left(budget), now);
        if budget.0 < 1.0 {
            return Err(((1.0 - budget.0) / self.rate).ceil().max(1.0) as u64);
        }
        budget.0 -= 1.0;
        Ok(())
    }

    /// Whether the use of a token is to be noted now.
    fn is_news(&self, id: &str, now: Ts) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(id).copied();
        let news = last.is_none_or(|last| now.ms() - last.ms() >= NOTED_EVERY);
        if news {
            noted.insert(id.to_owned(), now);
        }
        news
    }
}

/// Where a web page that asks came from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Visitor {
    /// No page, or one of ours.
    Own,
    /// One that may.
    Friend(HeaderValue),
    /// Any other.
    Stranger,
}

fn visitor(method: &Method, headers: &HeaderMap, friends: &[String], public: &str) -> Visitor {
    let Some(origin) = headers.get(header::ORIGIN) else {
        let foreign = local::is_foreign_page(method, headers);
        return if foreign { Visitor::Stranger } else { Visitor::Own };
    };
    let told = origin.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let own = told.split_once("://").is_some_and(|(_, name)| name.eq_ignore_ascii_case(host));
    let public = url::Url::parse(public).map(|url| url.origin().ascii_serialization());
    if own || public.is_ok_and(|public| public == told) {
        Visitor::Own
    } else if friends.iter().any(|friend| friend == told) {
        Visitor::Friend(origin.clone())
    } else {
        Visitor::Stranger
    }
}

/// Lets requests in, and sends answers out with what all of them carry.
pub(super) async fn guard(State(api): State<Api>, request: Request, next: Next) -> Response {
    let (method, headers) = (request.method(), request.headers());
    let visitor = visitor(method, headers, &api.guard.origins, &api.config.api.public_url);
    let known = etag::known(request.headers());
    let looks = request.method() == Method::GET;
    let mut response = match (&visitor, request.method()) {
        (Visitor::Friend(_), &Method::OPTIONS) => StatusCode::NO_CONTENT.into_response(),
        _ => let_in(&api, &visitor, request, next).await,
    };
    if looks {
        response = etag::conditional(response, &known).await;
    }
    let headers = response.headers_mut();
    if let Visitor::Friend(origin) = visitor {
        let values = [
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin),
            (header::ACCESS_CONTROL_ALLOW_METHODS, fixed("GET, POST, PUT, PATCH, DELETE")),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                fixed("authorization, content-type, last-event-id"),
            ),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, fixed("etag, link, location, retry-after")),
        ];
        headers.extend(values);
    }
    harden(headers);
    response
}

fn fixed(text: &'static str) -> HeaderValue {
    HeaderValue::from_static(text)
}

fn harden(headers: &mut HeaderMap) {
    let usual: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "private, no-cache"),
        (header::VARY, "Accept, Authorization, Origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(fixed(value));
    }
}

async fn let_in(api: &Api, visitor: &Visitor, mut request: Request, next: Next) -> Response {
    let contradicted = local::is_contradicted(request.uri(), request.headers());
    if contradicted || !api.guard.is_called(request.headers()) {
        let detail = "this server is not called by that name: use 127.0.0.1 or localhost, or set api.public_url";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail).into_response();
    }
    let peer = request.extensions().get::<Peer>().map(|Peer(peer)| peer.ip());
    // Whoever watches over it is answered however much others ask from the same address.
    if let Some(peer) = peer.filter(|_| !health::is_check(request.uri().path()))
        && let Err(seconds) = api.guard.spend(peer, Instant::now())
    {
        let detail = format!("too many requests: try again in {seconds} s");
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut response = Problem::new(status, "too_many_requests", detail).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return response;
    }
    // What the router does not know has no pattern, and nothing to guard.
    let Some(path) = request.extensions().get::<MatchedPath>().cloned() else {
        return next.run(request).await;
    };
    let Access::Scope(needed) = access(request.method().as_str(), path.as_str()) else {
        return next.run(request).await;
    };
    let without = without_token(&api.guard, &request);
    let who = match who(api, request.headers(), without).await {
        Ok(who) => who,
        Err(problem) => {
            // Only wrong tokens wait: behind a proxy everybody has the same address.
            if let Err(slowed) = logins::check(api, &request) {
                return slowed.into_response();
            }
            let row = logins::refused(api, &request, &problem);
            return logins::answer(api, row, problem).await;
        }
    };
    let (most, key) = body::limit_of(path.as_str(), &api.config.api);
    let (method, target) = (request.method().clone(), request.uri().path().to_owned());
    let looks = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
    let refusal = if who.scope < needed && who.open {
        let detail = format!(
            "this needs a token of scope {needed}: `feedmill token create NAME --scope {needed}` makes one, and `feedmill run` on a terminal prints a login link"
        );
        Some(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
    } else if who.scope < needed {
        let detail = format!("`{}` may {}, this needs {needed}", who.name, who.scope);
        Some(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    } else if *visitor == Visitor::Stranger && (!looks || who.open) {
        let detail = "pages of other sites may not use this server: api.cors_origins allows some";
        Some(Problem::new(StatusCode::FORBIDDEN, "cross_origin", detail))
    } else if body::claimed_length(request.headers()).is_some_and(|length| length > most) {
        Some(body::too_large(key))
    } else {
        None
    };
    request.extensions_mut().insert(who.clone());
    let response = match refusal {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let status = response.status();
    if !looks && !status.is_client_error() {
        // Whoever changed something wants to see it.
        api.looked.forget();
    }
    // What changed nothing must not fill the audit log: a few of those are written down, and none that a limit
    // turned away.
    let is_limited = response.headers().contains_key(header::RETRY_AFTER);
    if !looks && (status.is_success() || (!is_limited && api.logins.may_note(Instant::now()))) {
        let done = AuditRow::new(api.clock.now(), who.name, &method, &target, status.as_u16());
        if let Err(error) = gate::note(&*api.store, &done).await {
            tracing::warn!(%error, ?done, "a change could not be written down");
        }
    }
    response
}

/// The token that a request sends. Of two lines a proxy may have checked the other one, so that both
/// together are no token.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, token) = lines.next()?.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && lines.next().is_none();
    is_bearer.then(|| token.trim())
}

/// Who asks when no token is sent, as far as the request itself tells, and whose program that is.
struct Tokenless {
    who: Who,
    user: Option<LocalUser>,
}

const TOKEN: &str =
    "send `Authorization: Bearer TOKEN`; `feedmill token create NAME --scope read` makes one";

fn not_local(why: &NotLocal) -> String {
    format!("this request is not local, because {why}: {TOKEN}")
}

/// Who asks without a token, or why that is not enough.
fn without_token(guard: &Guard, request: &Request) -> Result<Tokenless, String> {
    let socket = request.extensions().get::<SocketPeer>();
    let own = socket.is_none().then_some(guard.address);
    let (name, scope) = match socket {
        Some(SocketPeer { is_trusted: true }) => ("unix socket", Scope::Admin),
        None if guard.open => ("local", Scope::Write),
        Some(_) | None => return Err(TOKEN.to_owned()),
    };
    local::check(request.version(), request.headers(), own).map_err(|why| not_local(&why))?;
    let who = Who { name: name.to_owned(), scope, open: true };
    Ok(Tokenless { who, user: request.extensions().get::<LocalUser>().cloned() })
}

impl Tokenless {
    /// Whether it is a program of our own account or of root.
    async fn check(self) -> Result<Who, String> {
        match self.user {
            Some(user) if !user.is_trusted().await => Err(not_local(&NotLocal::User)),
            _ => Ok(self.who),
        }
    }
}

/// Who asks; `without` is who that is when no token is sent. One that is sent is always looked at.
async fn who(
    api: &Api,
    headers: &HeaderMap,
    without: Result<Tokenless, String>,
) -> Result<Who, Problem> {
    let unauthorized =
        |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    if headers.get(header::AUTHORIZATION).is_none() {
        let checked = match without {
            Ok(tokenless) => tokenless.check().await,
            Err(detail) => Err(detail),
        };
        return checked.map_err(|detail| unauthorized(&detail));
    }
    let token = bearer(headers).filter(|token| !token.contains('\0'));
    if token.is_some_and(|token| api.guard.login.is(token)) {
        return Ok(Who { name: "login link".to_owned(), scope: Scope::Admin, open: false });
    }
    let whose = match token {
        Some(token) => gate::whose(&*api.store, token).await?,
        None => None,
    };
    let Some(row) = whose else {
        return Err(unauthorized("this token is nobody's: it may have been revoked"));
    };
    let now = api.clock.now();
    if api.guard.is_news(&row.id, now)
        && let Err(error) = gate::used(&*api.store, &row.id, now).await
    {
        tracing::debug!(%error, "the use of a token could not be noted");
    }
    Ok(Who { name: row.name, scope: row.scope, open: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        pairs.collect()
    }

    fn guarding(listen: &str, rate: u32) -> Guard {
        let config = config::Api { rate_limit: rate, ..config::Api::default() };
        Guard::new(&config, listen.parse().unwrap())
    }

    #[test]
    fn on_loopback_only_its_own_names_are_answered() {
        let guard = guarding("127.0.0.1:7171", 0);
        for (host, meant) in [
            ("127.0.0.1:7171", true),
            ("LOCALHOST", true),
            ("[::1]:7171", true),
            ("evil.example:7171", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(guard.is_called(&headers(&[("host", host)])), meant, "{host}");
        }
        assert!(guarding("192.0.2.1:80", 0).is_called(&headers(&[("host", "any.example")])));
        assert!(guard.open && !guarding("192.0.2.1:80", 0).open);
    }

    #[test]
    fn whoever_asks_too_often_waits() {
        let (guard, now) = (guarding("127.0.0.1:1", 2), Instant::now());
        let (one, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..20 {
            assert_eq!(guard.spend(one, now), Ok(()));
        }
        assert_eq!(guard.spend(one, now), Err(1));
        assert_eq!(guard.spend(other, now), Ok(()));
        assert_eq!(guard.spend(one, now + Duration::from_millis(500)), Ok(()));
        assert_eq!(guard.spend(one, now + Duration::from_millis(500)), Err(1));
    }

    #[test]
    fn a_page_of_another_site_is_a_stranger() {
        let friends = ["https://app.example".to_owned()];
        let seen = |origin: &str| {
            let sent = headers(&[("host", "127.0.0.1:7171"), ("origin", origin)]);
            visitor(&Method::POST, &sent, &friends, "")
        };
        assert_eq!(seen("http://127.0.0.1:7171"), Visitor::Own);
        assert!(matches!(seen("https://app.example"), Visitor::Friend(_)));
        for stranger in ["https://evil.example", "null", "http://127.0.0.1:8080", ""] {
            assert_eq!(seen(stranger), Visitor::Stranger, "{stranger}");
        }
        let bare = headers(&[("host", "x")]);
        assert_eq!(visitor(&Method::POST, &bare, &friends, ""), Visitor::Own);
        let silent = headers(&[("host", "127.0.0.1:7171"), ("sec-fetch-site", "cross-site")]);
        assert_eq!(visitor(&Method::POST, &silent, &friends, ""), Visitor::Stranger);
    }

    #[test]
    fn looking_needs_less_than_changing() {
        for (method, path, needed) in [
            ("GET", "/api/v1/sources", Access::Scope(Scope::Read)),
            ("POST", "/api/v1/sources", Access::Scope(Scope::Write)),
            ("GET", "/api/v1/config", Access::Scope(Scope::Read)),
            ("PUT", "/api/v1/config/{key}", Access::Scope(Scope::Admin)),
            ("GET", "/api/v1/audit", Access::Scope(Scope::Admin)),
            ("GET", "/metrics", Access::Scope(Scope::Read)),
            ("GET", "/healthz", Access::Everybody),
        ] {
            assert_eq!(access(method, path), needed, "{method} {path}");
        }
    }
}
