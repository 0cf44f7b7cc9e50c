//! Who gets the events: what can be set for a sink.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{BadValue, FileMode, Secret, SecretUrl, Size, Span};
use crate::model::Ts;

/// What else a sink has depends on its `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sink {
    #[serde(flatten)]
    pub target: Target,
    /// Events that are handed over at once (1 to 10,000).
    #[serde(default = "batch")]
    pub batch: usize,
    /// Where a sink begins that never ran: "beginning" with the first event that is kept, "now", or a
    /// time such as "2026-11-15T00:00:00Z".
    #[serde(default)]
    pub start: StartAt,
    #[serde(default)]
    pub filter: SinkFilter,
    #[serde(default)]
    pub redact: SinkRedact,
}

/// Who gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// Files with one JSON event per line, one a day.
    Ndjson {
        /// Directory of the files. Empty for `out` in `data_dir`.
        #[serde(default)]
        dir: PathBuf,
        /// A file that has grown to this size is followed by another one; 0 for one a day.
        #[serde(default)]
        max_size: Size,
        /// Whether files that nothing more comes to are compressed with gzip.
        #[serde(default)]
        compress: bool,
        /// Whether what was served is put beside them, as `raw/DATE/ID.blob`.
        #[serde(default)]
        raw: bool,
        /// Permissions of the files, such as "0600" (their owner alone) or "0644" (everybody may read).
        #[serde(default)]
        mode: FileMode,
    },
    /// One JSON file per item, as newsfed keeps its feed.
    Files {
        /// Directory of the files. Empty for `news` in `data_dir`.
        #[serde(default)]
        dir: PathBuf,
        /// Permissions of the files, such as "0600" (their owner alone) or "0644" (everybody may read).
        #[serde(default)]
        mode: FileMode,
    },
    /// Lines of JSON on standard output.
    Stdout {},
    /// Articles in Elasticsearch (7 to 9) or OpenSearch (1 to 3).
    Elasticsearch {
        /// The cluster, as `https://HOST:9200`.
        url: SecretUrl,
        /// Key that names us to it, in its encoded form.
        #[serde(default)]
        api_key: Secret,
        /// User that names us to it, in place of a key.
        #[serde(default)]
        user: String,
        /// Password of the user.
        #[serde(default)]
        password: Secret,
        /// File with the certificates (PEM) of those who sign for it, beside those whom the system
        /// trusts.
        #[serde(default)]
        root_cert: PathBuf,
        /// `raw_content` writes north-cloud's documents, an index per source; "articles" ours.
        #[serde(default)]
        layout: EsLayout,
        /// Index of "articles".
        #[serde(default = "articles")]
        index: String,
        /// What happens to a document that is there: "create" leaves it, "update" makes it what the
        /// article is now. "auto" is "create" for `raw_content`, else "update".
        #[serde(default)]
        mode: EsMode,
        /// Bytes of a request at the most.
        #[serde(default = "five_megabytes")]
        max_bytes: Size,
        /// Requests at a time (1 to 64). What is about the same article stays in order.
        #[serde(default = "two")]
        parallel: usize,
        /// Whether requests are compressed.
        #[serde(default = "yes")]
        gzip: bool,
        /// Shards of indexes that are made.
        #[serde(default = "one")]
        shards: u32,
        /// Replicas of indexes that are made.
        #[serde(default)]
        replicas: u32,
        /// How long a request may take.
        #[serde(default = "half_a_minute")]
        timeout: Span,
    },
    /// A signed request for each event, as the Standard Webhooks specification has it.
    Webhook {
        /// Where to post. Private addresses need `fetch.allow_networks`.
        url: SecretUrl,
        /// Signs messages, as `whsec_BASE64`. Empty leaves them unsigned.
        #[serde(default)]
        secret: Secret,
        /// Lines that go along, such as "authorization: Bearer TOKEN".
        #[serde(default)]
        headers: Vec<Secret>,
        /// Requests at a time (1 to 64).
        #[serde(default = "four")]
        parallel: usize,
        /// How long a request may take.
        #[serde(default = "half_a_minute")]
        timeout: Span,
    },
    /// Articles in Redis as the canonical fetcher keeps them.
    Redis {
        /// The server, as `redis://USER:PASSWORD@HOST:PORT/DB`, or `rediss://` with TLS.
        url: SecretUrl,
        /// File with the certificates (PEM) of those who sign for it, in place of those whom the
        /// system trusts.
        #[serde(default)]
        root_cert: PathBuf,
        /// What keys begin with.
        #[serde(default = "rss")]
        prefix: String,
        /// How long the server may take to answer.
        #[serde(default = "half_a_minute")]
        timeout: Span,
    },
    /// Events as a Redis stream.
    RedisStream {
        /// The server, as `redis://USER:PASSWORD@HOST:PORT/DB`, or `rediss://` with TLS.
        url: SecretUrl,
        /// File with the certificates (PEM) of those who sign for it, in place of those whom the
        /// system trusts.
        #[serde(default)]
        root_cert: PathBuf,
        /// The stream.
        #[serde(default = "stream")]
        key: String,
        /// About so many entries are kept; 0 keeps all.
        #[serde(default)]
        max_len: u64,
        /// How long the server may take to answer.
        #[serde(default = "half_a_minute")]
        timeout: Span,
    },
    /// Messages in a stream of NATS JetStream, on a subject per kind of event.
    Nats {
        /// Servers, separated by commas, as `nats://USER:PASSWORD@HOST:4222`.
        url: SecretUrl,
        /// The stream, which is made when it is missing.
        #[serde(default = "feedmill")]
        stream: String,
        /// What subjects begin with: the kind of the event follows.
        #[serde(default = "feedmill")]
        subject: String,
        /// How long the server may take to answer.
        #[serde(default = "half_a_minute")]
        timeout: Span,
    },
}

/// Which documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EsLayout {
    #[default]
    RawContent,
    Articles,
}

/// What happens to a document that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EsMode {
    #[default]
    Auto,
    Create,
    Update,
}

fn articles() -> String {
    "articles".to_owned()
}

const fn five_megabytes() -> Size {
    Size::bytes(5_000_000)
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

const fn two() -> usize {
    2
}

const fn four() -> usize {
    4
}

const fn half_a_minute() -> Span {
    Span::seconds(30)
}

fn rss() -> String {
    "rss:".to_owned()
}

fn stream() -> String {
    "feedmill:events".to_owned()
}

fn feedmill() -> String {
    "feedmill".to_owned()
}

impl Sink {
    /// A sink for which nothing else is said.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            batch: batch(),
            start: StartAt::default(),
            filter: SinkFilter::default(),
            redact: SinkRedact::default(),
        }
    }
}

impl Target {
    /// Files in this directory.
    pub fn ndjson(dir: impl Into<PathBuf>) -> Self {
        Self::Ndjson {
            dir: dir.into(),
            max_size: Size::default(),
            compress: false,
            raw: false,
            mode: FileMode::default(),
        }
    }

    /// A file per item in this directory.
    pub fn files(dir: impl Into<PathBuf>) -> Self {
        Self::Files { dir: dir.into(), mode: FileMode::default() }
    }

    /// A cluster at this address.
    pub fn elasticsearch(url: SecretUrl) -> Self {
        Self::Elasticsearch {
            url,
            api_key: Secret::default(),
            user: String::new(),
            password: Secret::default(),
            root_cert: PathBuf::new(),
            layout: EsLayout::default(),
            index: articles(),
            mode: EsMode::default(),
            max_bytes: five_megabytes(),
            parallel: two(),
            gzip: true,
            shards: 1,
            replicas: 0,
            timeout: half_a_minute(),
        }
    }

    /// A webhook at this address.
    pub fn webhook(url: SecretUrl) -> Self {
        let (secret, headers) = (Secret::default(), Vec::new());
        Self::Webhook { url, secret, headers, parallel: four(), timeout: half_a_minute() }
    }

    /// The address that it is at, when it is at one.
    pub const fn url(&self) -> Option<&SecretUrl> {
        match self {
            Self::Ndjson { .. } | Self::Files { .. } | Self::Stdout {} => None,
            Self::Elasticsearch { url, .. }
            | Self::Webhook { url, .. }
            | Self::Redis { url, .. }
            | Self::RedisStream { url, .. }
            | Self::Nats { url, .. } => Some(url),
        }
    }

    /// The name of its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ndjson { .. } => "ndjson",
            Self::Files { .. } => "files",
            Self::Stdout {} => "stdout",
            Self::Elasticsearch { .. } => "elasticsearch",
            Self::Webhook { .. } => "webhook",
            Self::Redis { .. } => "redis",
            Self::RedisStream { .. } => "redis_stream",
            Self::Nats { .. } => "nats",
        }
    }
}

const fn batch() -> usize {
    500
}

/// Which events a sink gets. An empty list asks for nothing in particular.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SinkFilter {
    /// Kinds of events, such as "article.new" or "article.*".
    pub kinds: Vec<String>,
    /// Sources, by name or id.
    pub sources: Vec<String>,
    /// Categories of sources.
    pub categories: Vec<String>,
    /// Tags of sources.
    pub tags: Vec<String>,
    /// Languages of articles; "en" takes "en-GB" as well.
    pub languages: Vec<String>,
    /// Articles whose publisher says one of these are left out: "ai-train=no", "noindex", "tdm".
    pub without_rights: Vec<String>,
}

/// What a sink does not hand on as it is: "keep" it, "drop" it, or "hash" it, so that the same value
/// has the same fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SinkRedact {
    /// E-mail addresses of authors, also where they stand for a name.
    pub emails: Redaction,
    /// Names and pages of authors.
    pub authors: Redaction,
    /// Texts of articles, summaries and contents of entries.
    pub texts: Redaction,
    /// Goes into fingerprints, so that nobody can try out values.
    pub salt: Secret,
}

/// What becomes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Redaction {
    #[default]
    Keep,
    Drop,
    Hash,
}

/// Where a sink begins that never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema)]
#[schemars(
    title = "\"beginning\", \"now\" or a time such as \"2026-11-15T00:00:00Z\"",
    with = "String"
)]
pub enum StartAt {
    #[default]
    Beginning,
    Now,
    Time(Ts),
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("beginning"),
            Self::Now => f.write_str("now"),
            Self::Time(at) => write!(f, "{at}"),
        }
    }
}

impl FromStr for StartAt {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let wanted = "\"beginning\", \"now\" or a time such as \"2026-11-15T00:00:00Z\"";
        match text.trim() {
            "beginning" => Ok(Self::Beginning),
            "now" => Ok(Self::Now),
            time => time
                .parse()
                .map(Self::Time)
                .map_err(|_| BadValue { given: text.to_owned(), wanted }),
        }
    }
}

impl Serialize for StartAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StartAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
