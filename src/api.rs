//! Everything Feedmill knows, over HTTP: the API under `/api/v1`, feeds of what was gathered, and the
//! dashboard, which uses nothing but the API.
//!
//! One file per resource. A handler reads what is asked, calls the function that the command line calls,
//! and shows what came of it. Nothing is decided here about the web, and nothing here fetches, but for the
//! look at an address that an operator asks for. Who may do what is decided in one place, `guard`.

mod admin;
mod articles;
mod asked;
mod body;
mod connections;
mod document;
mod entries;
mod etag;
mod events;
mod feeds;
mod fetches;
mod frontier;
mod guard;
mod health;
mod hosts;
mod impatient;
mod large_responses;
mod limits;
mod listing;
mod local;
mod local_user;
mod login;
mod logins;
mod memo;
mod metafeeds;
mod problem;
mod readiness;
mod server;
mod sinks;
mod socket;
mod sources;
mod stats;
mod streams;
mod takedowns;
mod views;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;

use crate::app::{self, AppError, Progress, Reload};
use crate::archive::Reader;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::DbError;
use crate::store::{Store, gate};

use problem::Problem;

/// How often the log is looked at while somebody follows it.
const LOOK: Duration = Duration::from_millis(250);

/// Why the HTTP server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Somebody else listens there.
    #[error(
        "cannot listen on {address}: {source}; another process may have that port, `api.listen` chooses another"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The Unix socket cannot be made.
    #[error("cannot listen on {}: {problem}; `api.socket` chooses another path", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What is in the way.
        problem: String,
    },
    /// Anybody could use it.
    #[error(
        "`api.listen` is {0}, which others can reach, and there is no token: make one with `feedmill token create NAME --scope read`, or listen on 127.0.0.1"
    )]
    NoToken(SocketAddr),
    /// The application cannot be used.
    #[error(transparent)]
    App(#[from] AppError),
    /// The database cannot be used.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl ApiError {
    /// The stable name of the failure.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Listen { .. } | Self::Socket { .. } => "cannot_listen",
            Self::NoToken(_) => "no_token",
            Self::App(error) => error.code(),
            Self::Db(error) => error.code(),
        }
    }
}

/// What all handlers are given.
#[derive(Clone)]
struct Api(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    config: Config,
    clock: Clock,
    reload: Reload,
    progress: Arc<Progress>,
    archive: Reader,
    /// Where it listens.
    address: SocketAddr,
    /// The last place of the log, as far as somebody looked.
    log: watch::Sender<i64>,
    stop: CancellationToken,
    guard: guard::Guard,
    logins: logins::Logins,
    /// Which tokens are valid, for streams that are open.
    tokens: streams::ValidTokens,
    limits: Arc<limits::ApiLimits>,
    connections: Arc<connections::Connections>,
    memo: stats::Memos,
    looked: frontier::Looked,
    disks: readiness::Disks,
    /// Turns of the hosts that searches for feeds make requests to.
    looks: Arc<app::discover::Looks>,
    /// What is worked out while nobody waits for it.
    workers: memo::Workers,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("address", &self.0.address).finish_non_exhaustive()
    }
}

impl std::ops::Deref for Api {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The HTTP server, listening.
#[derive(Debug)]
pub struct Listening {
    api: Api,
    listener: tokio::net::TcpListener,
    socket: Option<socket::Socket>,
}

/// Opens the store and listens. Nobody is answered before [`Listening::run`]. `progress` is that of the
/// engine beside it, when there is one.
pub async fn listen(
    config: &Config,
    clock: &Clock,
    reload: Reload,
    progress: Arc<Progress>,
    stop: CancellationToken,
) -> Result<Listening, ApiError> {
    let wanted = config.api.listen;
    let listener =
        server::bind(wanted).map_err(|source| ApiError::Listen { address: wanted, source })?;
    let address = listener.local_addr().unwrap_or(wanted);
    let store = app::open(config, clock).await?;
    if !address.ip().is_loopback() && gate::tokens(&*store).await?.is_empty() {
        return Err(ApiError::NoToken(address));
    }
    let path = &config.api.socket;
    let socket = (!path.as_os_str().is_empty()).then(|| socket::Socket::bind(path)).transpose()?;
    let archive = app::reader(config).map_err(AppError::from)?;
    let connections = config.api.max_connections.min(connections::raise_open_files());
    let limits = limits::ApiLimits::new(&config.api, connections, Arc::clone(&progress));
    let api = Api(Arc::new(Inner {
        store,
        config: config.clone(),
        clock: clock.clone(),
        reload,
        progress,
        archive,
        address,
        log: watch::Sender::new(0),
        stop,
        guard: guard::Guard::new(&config.api, address),
        logins: logins::Logins::default(),
        tokens: watch::Sender::new(Arc::default()),
        limits: Arc::new(limits),
        connections: connections::Connections::new(connections),
        memo: stats::Memos::default(),
        looked: frontier::Looked::default(),
        disks: readiness::Disks::default(),
        looks: Arc::default(),
        workers: memo::Workers::default(),
    }));
    Ok(Listening { api, listener, socket })
}

impl Listening {
    /// Where.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.api.address
    }

    /// The address of the dashboard with a token of scope `admin` that ends with this run, for the
    /// terminal that started it. It is made once; what has it has everything.
    #[must_use]
    pub fn login_link(&self) -> Option<String> {
        let token = self.api.guard.login.token()?;
        Some(login::link(self.api.address, &token))
    }

    /// The same as [`Listening::run`] where no engine in this process looks at the store for monitors.
    pub async fn run_alone(self) {
        let Inner { config, clock, store, progress, stop, .. } = &*self.api;
        let gauges = app::gauges(config, clock, store, progress, stop.clone());
        tokio::join!(self.run(), gauges);
    }

    /// Answers until it is told to stop, and lets what is under way end.
    pub async fn run(self) {
        let Self { api, listener, socket } = self;
        let router = router(&api);
        let (on_socket, through_socket) = (router.clone(), api.clone());
        let local = async {
            if let Some(socket) = socket {
                socket.serve(on_socket, &through_socket).await;
            }
        };
        let looking = look(api.clone());
        let checking = streams::check_tokens(api.clone());
        let serving = server::serve(listener, router, &api);
        tokio::join!(serving, looking, checking, local);
        api.workers.stop().await;
        api.store.close().await;
    }
}

/// Looks at the end of the log as long as somebody follows it.
async fn look(api: Api) {
    loop {
        tokio::select! {
            () = api.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if api.log.receiver_count() == 0 {
            continue;
        }
        match api.store.log_ends(i64::MAX).await {
            Ok(ends) => {
                api.log.send_if_modified(|last| std::mem::replace(last, ends.last) != ends.last);
            }
            Err(error) => tracing::debug!(%error, "the log cannot be looked at"),
        }
    }
}

/// The paths of the API, below `/api/v1`, with what they say about themselves.
fn resources() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .merge(sources::routes())
        .merge(feeds::routes())
        .merge(entries::routes())
        .merge(articles::routes())
        .merge(fetches::routes())
        .merge(frontier::routes())
        .merge(hosts::routes())
        .merge(events::routes())
        .merge(sinks::routes())
        .merge(stats::routes())
        .merge(takedowns::routes())
        .merge(admin::routes())
}

fn described() -> (Router<Api>, utoipa::openapi::OpenApi) {
    let whole = OpenApiRouter::with_openapi(document::base())
        .nest("/api/v1", resources())
        .merge(metafeeds::routes())
        .merge(health::routes());
    let (router, mut said) = whole.split_for_parts();
    document::complete(&mut said);
    (router, said)
}

/// The OpenAPI document, as text.
#[must_use]
pub fn openapi() -> String {
    described().1.to_pretty_json().unwrap_or_default() + "\n"
}

fn router(api: &Api) -> Router {
    let (router, _) = described();
    router
        .merge(feeds::aliases())
        .merge(web::routes())
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this path does not know that method: Allow names those that it knows",
            )
        })
        .fallback(async || Problem::not_found("unknown_path", "there is nothing at this path"))
        .layer(axum::middleware::from_fn_with_state(api.clone(), streams::limit))
        .layer(axum::middleware::from_fn(large_responses::limit))
        .layer(axum::middleware::from_fn_with_state(api.clone(), guard::guard))
        .with_state(api.clone())
}
