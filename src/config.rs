//! Configuration: one tree of plain values, read once at the start and handed down.
//!
//! The doc comments on the keys *are* the reference that `feedmill config reference` prints, so they
//! speak to the operator. A key stands here only when it does something. Nothing below this module
//! reads the environment or the file again, and nothing here opens a database or a socket.

mod aliases;
mod api;
mod budget;
mod error;
mod feeds;
mod file_mode;
mod group;
mod keys;
mod lists;
mod load;
mod network;
mod pages;
mod profile;
mod reference;
mod reload;
mod runtime;
mod schedule;
mod show;
mod sinks;
mod spider;
mod telling;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::model::{Secret, SecretUrl};
pub use aliases::{ALIASES, Convert};
pub use api::Api;
pub use budget::Budget;
pub use error::{ConfigError, Origin, Problem};
pub use feeds::{Dedup, Feed, UrlEquality};
pub use file_mode::FileMode;
pub use group::Group;
pub use lists::{Manager, RedisSet, Sources};
pub use load::{LoadOptions, Loaded, RESERVED, load};
pub use network::{HostPattern, Network, Resolve};
pub use pages::{Check, Redirect, RedirectPolicy, Refetch, RefetchPolicy, Validation};
pub use profile::Profile;
pub use reference::reference;
pub use reload::{Reloaded, reload};
pub use runtime::{Change, change_of, is_key, is_section};
pub use schedule::{Backoff, OnPermanent, OnThreshold, Policy, Schedule};
pub use show::{show, show_json, values};
pub use sinks::{EsLayout, EsMode, Redaction, Sink, SinkFilter, SinkRedact, StartAt, Target};
pub use spider::{External, Spider};
pub use telling::{Format, Level, Log, Messages, Trace};
pub use validate::{check_proxy, validate};
pub use values::{BadValue, Size, Span};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Directory of the embedded database, the archive and the output. Made when it is missing.
    pub data_dir: PathBuf,
    /// Whose defaults apply: "feedmill", or those of a design that it grew out of, "s0" (north-cloud),
    /// `s1_strict`, "s2" (rssify), "s3" (newsfed) or "s4" (canonical); docs/OPERATIONS.md tells
    /// what each sets.
    pub profile: Profile,
    pub database: Database,
    pub sources: Sources,
    pub fetch: Fetch,
    pub hosts: Hosts,
    pub robots: Robots,
    pub schedule: Schedule,
    pub retry: Retry,
    pub normalize: Normalize,
    pub discovery: Discovery,
    pub dedup: Dedup,
    pub redirect: Redirect,
    pub extract: Extract,
    pub validation: Validation,
    pub refetch: Refetch,
    pub feed: Feed,
    pub sitemap: Sitemap,
    pub spider: Spider,
    pub archive: Archive,
    pub retention: Retention,
    /// Who gets the events: one section `[sinks.NAME]` for each sink. Sinks named in a file replace
    /// the default one; a bare `[sinks]` means none at all.
    pub sinks: BTreeMap<String, Sink>,
    pub api: Api,
    pub log: Log,
    pub trace: Trace,
}

/// Where the frontier, the articles and the event log live.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Database {
    /// Empty for the embedded database `feedmill.db` in `data_dir`, or `file:/path/to/other.db`, or
    /// `postgres://user:password@host:5432/name` when several machines share the work; for TLS add
    /// `?sslmode=verify-full`, and `&sslrootcert=/path/to/root.pem` for a certificate of your own.
    pub url: SecretUrl,
    /// PostgreSQL: connections of one process at the most (1 to 1000). The engine and the API have a
    /// pool each, and a few more for locks and notifications.
    pub connections: usize,
    /// PostgreSQL: longest time for one statement. A statement that takes longer fails and is tried
    /// again; a server that does not answer pauses work.
    pub statement_timeout: Span,
    /// PostgreSQL: the same for migrations, moves, takedowns and other maintenance.
    pub maintenance_timeout: Span,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: SecretUrl::default(),
            connections: 12,
            statement_timeout: Span::seconds(30),
            maintenance_timeout: Span::hours(1),
        }
    }
}

/// How requests are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fetch {
    /// The User-Agent header. Empty for `Feedmill/VERSION (+CONTACT)`.
    pub agent: String,
    /// A web page or mail address at which publishers can reach you; part of the User-Agent.
    /// Please set it: a publisher who can ask does not need to block.
    pub contact: String,
    /// How many requests may be in flight at once, over all hosts (1 to 1000). Half as many more
    /// may wait for slow hosts.
    pub workers: usize,
    /// Limit for one request, from connecting to the last byte.
    pub request_timeout: Span,
    /// Limit for making a connection, TLS included.
    pub connect_timeout: Span,
    /// Longest silence: from the request to its answer, and between two pieces of a body.
    pub read_timeout: Span,
    /// Limit for one task with all its redirects, and with reading what they bring.
    pub task_timeout: Span,
    /// Largest response body as transferred; a larger one is cut off and counts as failed.
    pub max_body: Size,
    /// Largest sitemap as transferred; the protocol allows 50 MiB.
    pub max_sitemap: Size,
    /// Largest body after decompression.
    pub max_decoded: Size,
    /// How many redirects one task may follow (0 to 20).
    pub max_redirects: usize,
    /// Whether pages that were read before are asked for with the validators of the last answer.
    pub conditional_pages: bool,
    /// Fixed addresses for names, as `HOST=IP:PORT`. HOST may be `*.example.test` for all names
    /// below it; several entries for one HOST are tried in turn. Requests to these names connect there,
    /// whatever the address: the guard against private networks lets this port of it pass, and no other.
    pub resolve: Vec<Resolve>,
    /// A proxy for all requests: "http://", "https://", "socks5://" or "socks5h://", with
    /// `user:password@` where it asks. All but socks5 resolve names themselves, so that the guard
    /// cannot see where a name leads: such a proxy must refuse private networks itself.
    pub proxy: SecretUrl,
    /// Addresses of this machine to connect from. A host always gets the same one of them.
    #[schemars(title = "a list of addresses such as \"192.0.2.10\"")]
    pub bind: Vec<IpAddr>,
    /// Private networks that may be fetched from, such as `127.0.0.0/8`. All others are refused.
    pub allow_networks: Vec<Network>,
    /// The only hosts that may be fetched from; `*.example.com` means all names below. Empty for all.
    pub allow_hosts: Vec<HostPattern>,
    /// The only ports that may be fetched from. Empty for all but those of other well-known
    /// services, such as mail or databases.
    pub allow_ports: Vec<u16>,
}

/// How gently one host is treated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hosts {
    /// Least time between two requests to one host.
    pub delay: Span,
    /// Requests to one host at a time (1 to 1000). More than one only where you know it is welcome.
    pub concurrency: u32,
    /// Hosts that share one pause, because one platform serves them: "NAME=HOST HOST", where a
    /// HOST may be `*.example.test`.
    pub groups: Vec<Group>,
    /// The longest pause that a server gets by `Retry-After` (at least 1m). Shorter ones are kept
    /// exactly; one that asks for more is asked again after this time.
    pub max_retry_after: Span,
}

/// How robots.txt is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Robots {
    /// How long a robots.txt is trusted before it is fetched again (at most 24h, by RFC 9309).
    pub ttl: Span,
    /// Whether robots.txt also decides about feeds that you declared yourself.
    pub apply_to_feeds: bool,
    /// What a robots.txt means that cannot be had, because its server fails: `retry_later` lets the
    /// host wait, while a copy that is not a day too old serves on; "allow" takes it as missing.
    pub on_server_error: OnServerError,
}

/// What a robots.txt means that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnServerError {
    #[default]
    RetryLater,
    Allow,
}

/// What happens after a failure that may pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// "backoff" tries a page again; "once" gives it up at the first failure, for 30 days.
    pub mode: RetryMode,
    /// How often a page is tried again before it is given up (0 to 100).
    pub max: u32,
    /// Wait before the first retry; it doubles with each further one.
    pub first: Span,
    /// Longest wait between two retries.
    pub cap: Span,
}

/// Whether a page that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RetryMode {
    #[default]
    Backoff,
    Once,
}

/// When two URLs count as the same.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Normalize {
    /// More parameters that only track who comes, such as "ref", beside those that are known. A `*` at
    /// the end stands for whatever follows.
    pub tracking: Vec<String>,
    /// Whether `/news/` and `/news` are two pages.
    pub keep_trailing_slash: bool,
    /// Hosts of sources on which they are two pages, whatever `keep_trailing_slash` says: "a.example", or
    /// "*.a.example" for those below it.
    pub keep_trailing_slash_on: Vec<String>,
    /// "https" when `http://` and `https://` are the same page, "given" when they are two.
    pub scheme_in_key: SchemeInKey,
    /// Whether links with `http://` are followed as `https://` where that is known to work: on the host
    /// of the page or feed that they stand in, when it was served like that.
    pub upgrade_stored_url: bool,
}

/// What of the scheme tells two pages apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchemeInKey {
    #[default]
    Https,
    Given,
}

/// How feeds and sitemaps are found for a source that names none. One address is asked for after the
/// other, with the pauses and rules of all requests; `source show` tells what was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Discovery {
    /// Whether they are looked for. A source may have its own word (`source add --no-discover`).
    pub enabled: bool,
    /// Requests that a search may cost at the most, without robots.txt (1 to 100).
    pub max_requests: u32,
    /// Longest time from the first answer to the last request; that an engine was down counts as well.
    pub time_limit: Span,
    /// A search that found nothing begins again after this long.
    pub retry: Span,
}

/// How articles are taken from pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Extract {
    /// A page whose HTML is shorter than this many characters counts as broken.
    pub min_html_chars: usize,
}

/// What is taken from sitemaps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sitemap {
    /// Entries older than this are left out; 0 takes all.
    pub max_age: Span,
}

/// The responses as they came, in WARC segments, here and if wanted in a bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Archive {
    /// Directory of the segments. Empty for `archive` in `data_dir`.
    pub dir: PathBuf,
    /// Bucket that closed segments are brought to, as `s3://BUCKET/PREFIX`. Empty for none.
    pub url: String,
    /// Address of the S3 service. Empty for Amazon's, or for `AWS_ENDPOINT_URL`.
    pub endpoint: String,
    /// Region of the bucket. Empty for `AWS_REGION`.
    pub region: String,
    /// Access key of the bucket. Empty for `AWS_ACCESS_KEY_ID`, or what the machine itself is given.
    pub access_key: String,
    /// Secret that goes with the access key.
    pub secret_key: Secret,
    /// How long a segment stays here too after it was begun, once it is in the bucket.
    pub keep_local: Span,
    /// A segment is closed when it has grown to this size…
    pub segment_size: Size,
    /// …or when it has been open for this long.
    pub segment_age: Span,
    /// How hard to compress: 1 is fastest, 9 is smallest.
    pub gzip_level: u32,
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Work pauses while the disk has less free space than this.
    pub min_free: Size,
    /// How long responses are kept as they came; 0 for ever. Articles and entries stay.
    pub raw_age: Span,
    /// How many of its last documents each feed keeps beyond that age.
    pub raw_per_feed: u32,
    /// Largest size of all segments together; 0 for any. The oldest go first, whatever is in them.
    pub raw_size: Size,
    /// How long events are kept once every sink has them; 0 for ever.
    pub events: Span,
}

impl Default for Config {
    fn default() -> Self {
        let ndjson = Sink::new(Target::ndjson(""));
        Self {
            data_dir: PathBuf::from("./feedmill-data"),
            profile: Profile::default(),
            database: Database::default(),
            sources: Sources::default(),
            fetch: Fetch::default(),
            hosts: Hosts::default(),
            robots: Robots::default(),
            schedule: Schedule::default(),
            retry: Retry::default(),
            normalize: Normalize::default(),
            discovery: Discovery::default(),
            dedup: Dedup::default(),
            redirect: Redirect::default(),
            extract: Extract::default(),
            validation: Validation::default(),
            refetch: Refetch::default(),
            feed: Feed::default(),
            sitemap: Sitemap::default(),
            spider: Spider::default(),
            archive: Archive::default(),
            retention: Retention::default(),
            sinks: BTreeMap::from([("ndjson".to_owned(), ndjson)]),
            api: Api::default(),
            log: Log::default(),
            trace: Trace::default(),
        }
    }
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            agent: String::new(),
            contact: String::new(),
            workers: 10,
            request_timeout: Span::seconds(15),
            connect_timeout: Span::seconds(10),
            read_timeout: Span::seconds(10),
            task_timeout: Span::seconds(60),
            max_body: Size::megabytes(10),
            max_sitemap: Size::mebibytes(50),
            max_decoded: Size::mebibytes(50),
            max_redirects: 5,
            conditional_pages: true,
            resolve: Vec::new(),
            proxy: SecretUrl::default(),
            bind: Vec::new(),
            allow_networks: Vec::new(),
            allow_hosts: Vec::new(),
            allow_ports: Vec::new(),
        }
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            delay: Span::seconds(1),
            concurrency: 1,
            groups: Vec::new(),
            max_retry_after: Span::hours(7 * 24),
        }
    }
}

impl Default for Robots {
    fn default() -> Self {
        Self {
            ttl: Span::hours(24),
            apply_to_feeds: false,
            on_server_error: OnServerError::RetryLater,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { mode: RetryMode::Backoff, max: 3, first: Span::minutes(1), cap: Span::hours(24) }
    }
}

impl Default for Discovery {
    fn default() -> Self {
        let (time_limit, retry) = (Span::hours(24), Span::hours(168));
        Self { enabled: true, max_requests: 20, time_limit, retry }
    }
}

impl Default for Extract {
    fn default() -> Self {
        Self { min_html_chars: 200 }
    }
}

impl Default for Sitemap {
    fn default() -> Self {
        Self { max_age: Span::hours(48) }
    }
}

impl Default for Archive {
    fn default() -> Self {
        Self {
            dir: PathBuf::new(),
            url: String::new(),
            endpoint: String::new(),
            region: String::new(),
            access_key: String::new(),
            secret_key: Secret::default(),
            keep_local: Span::hours(24),
            segment_size: Size::megabytes(256),
            segment_age: Span::hours(6),
            gzip_level: 6,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            min_free: Size::megabytes(500),
            raw_age: Span::hours(30 * 24),
            raw_per_feed: 10,
            raw_size: Size::bytes(0),
            events: Span::seconds(0),
        }
    }
}

/// Paths may be relative; they are then relative to the current directory.
impl Config {
    /// The address of the PostgreSQL server; `None` for the embedded database.
    pub fn postgres_url(&self) -> Option<&str> {
        let url = self.database.url.expose();
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        let named = |name: &str| scheme.eq_ignore_ascii_case(name);
        (named("postgres") || named("postgresql")).then_some(url)
    }

    /// The file of the embedded database.
    pub fn database_path(&self) -> PathBuf {
        match self.database.url.expose().strip_prefix("file:") {
            Some(path) => PathBuf::from(path.strip_prefix("//").unwrap_or(path)),
            None => self.data_dir.join("feedmill.db"),
        }
    }

    /// The directory of the WARC segments.
    pub fn archive_dir(&self) -> PathBuf {
        self.in_data_dir(&self.archive.dir, "archive")
    }

    /// The directory that a sink writes to; `None` when it writes to none, or there is no such sink.
    pub fn sink_dir(&self, name: &str) -> Option<PathBuf> {
        match &self.sinks.get(name)?.target {
            Target::Ndjson { dir, .. } => Some(self.in_data_dir(dir, "out")),
            Target::Files { dir, .. } => Some(self.in_data_dir(dir, "news")),
            Target::Stdout {}
            | Target::Elasticsearch { .. }
            | Target::Webhook { .. }
            | Target::Redis { .. }
            | Target::RedisStream { .. }
            | Target::Nats { .. } => None,
        }
    }

    fn in_data_dir(&self, given: &Path, fallback: &str) -> PathBuf {
        if given.as_os_str().is_empty() { self.data_dir.join(fallback) } else { given.to_owned() }
    }

    /// The User-Agent header: who asks, and where to complain.
    pub fn user_agent(&self) -> String {
        const NAME: &str = concat!("Feedmill/", env!("CARGO_PKG_VERSION"));
        match (self.fetch.agent.as_str(), self.fetch.contact.as_str()) {
            ("", "") => NAME.to_owned(),
            ("", contact) => format!("{NAME} (+{contact})"),
            (agent, _) => agent.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_default_into_the_data_directory() {
        let config = Config::default();
        assert_eq!(config.database_path(), Path::new("./feedmill-data/feedmill.db"));
        assert_eq!(config.archive_dir(), Path::new("./feedmill-data/archive"));
        assert_eq!(config.sink_dir("ndjson").unwrap(), Path::new("./feedmill-data/out"));
        assert_eq!(config.sink_dir("other"), None);
    }

    #[test]
    fn a_sitemap_may_be_as_large_as_the_protocol_allows() {
        let (fetch, allowed) = (Config::default().fetch, 52_428_800);
        assert_eq!((fetch.max_sitemap.as_len(), fetch.max_decoded.as_len()), (allowed, allowed));
        assert_eq!(feedmill_formats::sitemap::Limits::default().bytes, allowed);
    }

    #[test]
    fn paths_can_be_placed_elsewhere() {
        let mut config = Config::default();
        config.archive.dir = "/warc".into();
        config.sinks.insert("more".into(), Sink::new(Target::ndjson("more")));
        assert_eq!(config.archive_dir(), Path::new("/warc"));
        assert_eq!(config.sink_dir("more").unwrap(), Path::new("more"));
        for (url, path) in [
            ("file:/var/feeds.db", "/var/feeds.db"),
            ("file:///var/feeds.db", "/var/feeds.db"),
            ("file:feeds.db", "feeds.db"),
        ] {
            config.database.url = SecretUrl::from(url.to_owned());
            assert_eq!(config.database_path(), Path::new(path), "{url}");
        }
    }

    #[test]
    fn the_agent_names_a_contact_unless_it_is_given_whole() {
        let mut config = Config::default();
        assert!(config.user_agent().starts_with("Feedmill/"));
        assert!(!config.user_agent().contains('('));
        config.fetch.contact = "https://news.example/bot".into();
        assert!(config.user_agent().ends_with(" (+https://news.example/bot)"));
        config.fetch.agent = "Mine/1".into();
        assert_eq!(config.user_agent(), "Mine/1");
    }
}
