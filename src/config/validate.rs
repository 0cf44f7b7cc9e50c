//! What a configuration must hold as a whole. The type of each value was checked before.
//!
//! Every message says what is allowed, so that nobody has to look it up.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use crate::model::KindPattern;

use super::error::{Origin, Problem};
use super::{
    Api, Archive, Config, Feed, Fetch, Redaction, Retry, Robots, Schedule, Secret, SecretUrl,
    SinkRedact, Size, Sources, Span, Target, Trace,
};

/// Signs that no index may have in its name.
const ODD: &str = "\\/*?\"<>|,#:";

/// All that is wrong; empty when the configuration can be used.
pub fn validate(config: &Config) -> Vec<Problem> {
    let mut found = Found::default();
    if config.data_dir.as_os_str().is_empty() {
        found.refuse("data_dir", "is empty: name a directory, such as \"./feedmill-data\"");
    }
    found.database(config.database.url.expose());
    found.within("database.connections", config.database.connections, 1..=1000);
    found.positive("database.statement_timeout", config.database.statement_timeout);
    found.positive("database.maintenance_timeout", config.database.maintenance_timeout);
    found.lists(&config.sources);
    found.fetch(&config.fetch);
    found.contact(&config.fetch.contact);
    found.within("hosts.concurrency", config.hosts.concurrency, 1..=1000);
    let years = Span::hours(10 * 365 * 24);
    found.within("hosts.max_retry_after", config.hosts.max_retry_after, Span::minutes(1)..=years);
    found.robots(&config.robots);
    found.schedule(&config.schedule);
    found.retry(&config.retry);
    found.within("discovery.max_requests", config.discovery.max_requests, 1..=100);
    found.positive("discovery.time_limit", config.discovery.time_limit);
    found.positive("discovery.retry", config.discovery.retry);
    found.within("validation.max_title_chars", config.validation.max_title_chars, 1..=100_000);
    found.within("validation.earliest_year", config.validation.earliest_year, 1..=9999);
    found.positive("refetch.interval", config.refetch.interval);
    found.within("refetch.times", config.refetch.times, 0..=1000);
    found.within("spider.max_depth", config.spider.max_depth, -1..=100);
    found.within("spider.max_pages", config.spider.max_pages, 1..=1_000_000);
    found.within("spider.max_page_number", config.spider.max_page_number, 1..=100_000);
    found.positive("spider.min_interval", config.spider.min_interval);
    found.feed(&config.feed);
    found.archive(&config.archive);
    found.sinks(config);
    found.trace(&config.trace);
    found.api(&config.api);
    found.0
}

/// What is wrong with the address of a proxy, without telling it: it may hold a password. Empty
/// means none.
pub fn check_proxy(proxy: &SecretUrl) -> Result<(), &'static str> {
    const ADVICE: &str = "is no address of a proxy: write it as http://host:port, https://host:port, \
        socks5://host:port or socks5h://host:port";
    let known = |url: Url| {
        matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") && url.has_host()
    };
    let usable = proxy.expose().is_empty() || Url::parse(proxy.expose()).is_ok_and(known);
    if usable { Ok(()) } else { Err(ADVICE) }
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    fn api(&mut self, api: &Api) {
        let is_web = |text: &str| {
            Url::parse(text).is_ok_and(|url| {
                let is_plain = url.query().is_none() && !has_credentials(&url);
                matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain
            })
        };
        for (key, url) in [("api.public_url", &api.public_url), ("api.hub", &api.hub)] {
            if !url.is_empty() && !is_web(url) {
                self.refuse(key, "must be an address such as \"https://news.example.org\"");
            }
        }
        let is_origin = |text: &str| {
            Url::parse(text)
                .is_ok_and(|url| is_web(text) && url.origin().ascii_serialization() == text)
        };
        if !api.cors_origins.iter().all(|origin| is_origin(origin)) {
            let message = "must be origins such as \"https://app.example.org\", without a path";
            self.refuse("api.cors_origins", message);
        }
        self.within("api.max_connections", api.max_connections, 8..=100_000);
        self.within("api.max_streams", api.max_streams, 1..=100_000);
        self.within("api.max_client_streams", api.max_client_streams, 1..=100_000);
        for (key, size) in [("api.max_body", api.max_body), ("api.max_upload", api.max_upload)] {
            if size.as_bytes() == 0 {
                self.refuse(key, "must be more than 0");
            }
        }
    }

    fn refuse(&mut self, key: &str, message: impl Into<String>) {
        let (key, message) = (key.to_owned(), message.into());
        self.0.push(Problem::Refused { key, origin: Origin::Default, message });
    }

    fn within<T: PartialOrd + std::fmt::Display + Copy>(
        &mut self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(&value) {
            let (low, high) = range.into_inner();
            self.refuse(key, format!("is {value}: choose {low} to {high}"));
        }
    }

    fn trace(&mut self, trace: &Trace) {
        self.within("trace.sample_ratio", trace.sample_ratio, 0.0..=1.0);
        self.header_lines("trace.headers", &trace.headers);
        let endpoint = trace.endpoint.expose();
        let is_web = |url: Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if !(endpoint.is_empty() || Url::parse(endpoint).is_ok_and(is_web)) {
            let message = "is no address of a collector: write it as http://host:4318";
            self.refuse("trace.endpoint", message);
        }
    }

    fn header_lines(&mut self, key: &str, lines: &[Secret]) {
        if lines.iter().any(|line| !line.expose().contains(':')) {
            self.refuse(key, "has a line without a colon: write \"name: value\"");
        }
    }

    /// Empty, or something that a publisher can follow.
    fn contact(&mut self, contact: &str) {
        let page = contact.starts_with("https://") || contact.starts_with("http://");
        let mail = contact
            .split_once('@')
            .is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
        if page && Url::parse(contact).is_ok_and(|url| has_credentials(&url)) {
            self.refuse(
                "fetch.contact",
                "has a name or a password, which every publisher would see",
            );
        }
        if contact.is_ascii() && !(contact.is_empty() || page || mail) {
            self.refuse(
                "fetch.contact",
                "is neither a web page nor a mail address: write one that publishers can reach",
            );
        }
    }

    fn positive(&mut self, key: &str, span: Span) {
        if span.is_zero() {
            self.refuse(key, "is 0: choose a time span above 0, such as \"15s\"");
        }
    }

    /// `small` must not be more than `large`.
    fn ordered(&mut self, small: (&str, Span), large: (&str, Span)) {
        if small.1 > large.1 {
            let (limit, value) = large;
            let message = format!(
                "is {}, more than `{limit}` ({value}): lower it or raise `{limit}`",
                small.1
            );
            self.refuse(small.0, message);
        }
    }

    fn header(&mut self, key: &str, value: &str) {
        if !value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
            self.refuse(key, "goes into a request header: use plain ASCII on one line");
        }
    }

    fn lists(&mut self, lists: &Sources) {
        let url = &lists.manager.url;
        let web = |url: Url| matches!(url.scheme(), "http" | "https") && url.username().is_empty();
        if !url.is_empty() && !Url::parse(url).is_ok_and(web) {
            let advice = "is no address of a source-manager: write it as http://host:8050, and what \
                it asks for as sources.manager.token";
            self.refuse("sources.manager.url", advice);
        }
        self.positive("sources.manager.interval", lists.manager.interval);
        self.positive("sources.redis_interval", lists.redis_interval);
    }

    /// Never tells the value: it may hold a password.
    fn database(&mut self, url: &str) {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        let advice = "leave it empty for the embedded store, or write file:/path/to/feedmill.db or \
            postgres://user:password@host:5432/name";
        match scheme.as_str() {
            _ if url.is_empty() => {}
            "file" if !url.trim_start_matches("file:").trim_matches('/').is_empty() => {}
            "file" => self.refuse("database.url", format!("names no file: {advice}")),
            "postgres" | "postgresql" => {
                if let Err(message) = crate::db::check_postgres_url(url) {
                    self.refuse("database.url", format!("is refused: {message}"));
                }
            }
            "mysql" | "mariadb" => {
                let message =
                    "names MySQL, which is not supported: use PostgreSQL or the embedded store";
                self.refuse("database.url", format!("{message} ({advice})"));
            }
            _ => self.refuse("database.url", format!("is no known database: {advice}")),
        }
    }

    fn fetch(&mut self, fetch: &Fetch) {
        self.header("fetch.agent", &fetch.agent);
        self.header("fetch.contact", &fetch.contact);
        self.within("fetch.workers", fetch.workers, 1..=1000);
        self.proxy(&fetch.proxy);
        self.within("fetch.max_redirects", fetch.max_redirects, 0..=20);
        self.positive("fetch.request_timeout", fetch.request_timeout);
        self.positive("fetch.connect_timeout", fetch.connect_timeout);
        self.positive("fetch.read_timeout", fetch.read_timeout);
        self.positive("fetch.task_timeout", fetch.task_timeout);
        self.ordered(
            ("fetch.request_timeout", fetch.request_timeout),
            ("fetch.task_timeout", fetch.task_timeout),
        );
        for (key, size) in [
            ("fetch.max_body", fetch.max_body),
            ("fetch.max_sitemap", fetch.max_sitemap),
            ("fetch.max_decoded", fetch.max_decoded),
        ] {
            if size.is_zero() {
                self.refuse(key, "is 0, so nothing could be fetched: choose a size above 0");
            }
        }
    }

    /// Never tells the value: it may hold a password.
    fn proxy(&mut self, proxy: &SecretUrl) {
        if let Err(problem) = check_proxy(proxy) {
            self.refuse("fetch.proxy", problem);
        }
    }

    fn robots(&mut self, robots: &Robots) {
        self.within("robots.ttl", robots.ttl, Span::seconds(1)..=Span::hours(24));
    }

    fn schedule(&mut self, schedule: &Schedule) {
        self.positive("schedule.default_interval", schedule.default_interval);
        self.positive("schedule.sitemap_interval", schedule.sitemap_interval);
        self.positive("schedule.min_interval", schedule.min_interval);
        self.ordered(
            ("schedule.min_interval", schedule.min_interval),
            ("schedule.max_interval", schedule.max_interval),
        );
        self.within("schedule.jitter", schedule.jitter, 0.0..=0.5);
        self.within("schedule.ewma_up", schedule.ewma_up, 1.0..=10.0);
        self.within("schedule.ewma_down", schedule.ewma_down, 0.1..=1.0);
        self.within("schedule.ewma_alpha", schedule.ewma_alpha, 0.0..=1.0);
        self.within("schedule.ewma_blend", schedule.ewma_blend, 0.0..=1.0);
        self.within("schedule.failure_threshold", schedule.failure_threshold, 1..=1000);
        self.within("schedule.backoff_base", schedule.backoff_base, 1.0..=10.0);
        self.positive("schedule.backoff_cap", schedule.backoff_cap);
    }

    fn retry(&mut self, retry: &Retry) {
        self.within("retry.max", retry.max, 0..=100);
        self.positive("retry.first", retry.first);
        self.ordered(("retry.first", retry.first), ("retry.cap", retry.cap));
    }

    fn feed(&mut self, feed: &Feed) {
        self.within("feed.initial_item_cap", feed.initial_item_cap, 0..=100_000);
        self.positive("feed.stale_after", feed.stale_after);
        if feed.reject_links.iter().any(|text| text.trim().is_empty()) {
            self.refuse("feed.reject_links", "has an empty text, which stands in every link");
        }
    }

    fn archive(&mut self, archive: &Archive) {
        let sizes = Size::megabytes(1)..=Size::megabytes(100_000);
        self.within("archive.segment_size", archive.segment_size, sizes);
        self.positive("archive.segment_age", archive.segment_age);
        self.within("archive.gzip_level", archive.gzip_level, 1..=9);
        let bucket = archive.url.strip_prefix("s3://").unwrap_or_default();
        if !archive.url.is_empty() && bucket.split('/').next().is_none_or(str::is_empty) {
            self.refuse("archive.url", "names no bucket: write s3://BUCKET/PREFIX, or nothing");
        }
        // These are shown as they are.
        for (key, url) in [("archive.url", &archive.url), ("archive.endpoint", &archive.endpoint)] {
            let is_secret = |url: Url| has_credentials(&url) || url.query().is_some();
            if Url::parse(url).is_ok_and(is_secret) {
                let message = "has a name, a password or a query: use `archive.access_key` and `archive.secret_key`";
                self.refuse(key, message);
            }
        }
        if archive.access_key.is_empty() != archive.secret_key.expose().is_empty() {
            let message = "goes with `archive.secret_key`: set both, or neither";
            self.refuse("archive.access_key", message);
        }
    }

    fn target(&mut self, path: &str, target: &Target) {
        let schemes: &[&str] = match target {
            Target::Ndjson { .. } | Target::Files { .. } | Target::Stdout {} => return,
            Target::Elasticsearch { api_key, user, max_bytes, parallel, index, .. } => {
                let odd = |c: char| c.is_uppercase() || c.is_whitespace() || ODD.contains(c);
                if index.is_empty()
                    || index.starts_with(['-', '_', '+', '.'])
                    || index.contains(odd)
                {
                    let message = "is no name of an index: small letters, digits, - and _";
                    self.refuse(&format!("{path}.index"), message);
                }
                self.within(&format!("{path}.parallel"), *parallel, 1..=64);
                if !api_key.expose().is_empty() && !user.is_empty() {
                    let message = "goes without `user`: set one of the two";
                    self.refuse(&format!("{path}.api_key"), message);
                }
                self.within(
                    &format!("{path}.max_bytes"),
                    max_bytes.as_bytes(),
                    1_000..=100_000_000,
                );
                &["http", "https"]
            }
            Target::Webhook { parallel, headers, secret, .. } => {
                self.within(&format!("{path}.parallel"), *parallel, 1..=64);
                let coded = secret.expose().strip_prefix("whsec_");
                if coded.is_some_and(|coded| STANDARD.decode(coded).is_err()) {
                    let message =
                        "must have base64 behind whsec_: its receivers could not check it";
                    self.refuse(&format!("{path}.secret"), message);
                }
                self.header_lines(&format!("{path}.headers"), headers);
                &["http", "https"]
            }
            Target::Redis { url, root_cert, .. } | Target::RedisStream { url, root_cert, .. } => {
                let tls = Url::parse(url.expose()).is_ok_and(|url| url.scheme() == "rediss");
                if !root_cert.as_os_str().is_empty() && !tls {
                    let message = "goes with a url that begins with rediss://";
                    self.refuse(&format!("{path}.root_cert"), message);
                }
                &["redis", "rediss"]
            }
            Target::Nats { .. } => &["nats", "tls"],
        };
        let all = target.url().map(|url| url.expose().split(',').map(str::trim)).into_iter();
        for url in all.flatten() {
            let known = Url::parse(url).is_ok_and(|url| schemes.contains(&url.scheme()));
            if !known {
                let wanted = schemes.join(":// or ");
                self.refuse(&format!("{path}.url"), format!("must begin with {wanted}://"));
            }
        }
    }

    fn sinks(&mut self, config: &Config) {
        let mut taken = BTreeMap::new();
        for name in config.sinks.keys() {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if !name.chars().all(plain) {
                self.refuse(
                    &format!("sinks.{name}"),
                    "must be named with letters, digits, - and _",
                );
            }
            if let Some(sink) = config.sinks.get(name) {
                self.within(&format!("sinks.{name}.batch"), sink.batch, 1..=10_000);
                self.target(&format!("sinks.{name}"), &sink.target);
                let SinkRedact { emails, authors, texts, .. } = &sink.redact;
                let redacts = [emails, authors, texts].iter().any(|how| **how != Redaction::Keep);
                if redacts && matches!(sink.target, Target::Ndjson { raw: true, .. }) {
                    let message = "writes pages as they were served, which `redact` cannot change: set one of the two";
                    self.refuse(&format!("sinks.{name}.raw"), message);
                }
                for kind in &sink.filter.kinds {
                    if let Err(error) = kind.parse::<KindPattern>() {
                        self.refuse(&format!("sinks.{name}.filter.kinds"), error.to_string());
                    }
                }
            }
            let Some(dir) = config.sink_dir(name) else { continue };
            let shown = dir.display().to_string();
            if let Some(other) = taken.insert(dir, name) {
                let message = format!(
                    "is {shown}, where sink `{other}` writes too: choose another directory"
                );
                self.refuse(&format!("sinks.{name}.dir"), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileMode, Sink};
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(validate(&Config::default()), []);
    }

    /// What to break, and the key and words that the message must have.
    type Case = (fn(&mut Config), &'static str, &'static str);

    #[test]
    fn each_rule_refuses_and_says_what_to_do() {
        let cases: [Case; 38] = [
            (|c| c.data_dir = "".into(), "data_dir", "name a directory"),
            (|c| c.fetch.workers = 0, "fetch.workers", "is 0: choose 1 to 1000"),
            (|c| c.fetch.workers = 1001, "fetch.workers", "is 1001: choose 1 to 1000"),
            (|c| c.fetch.agent = "a\nb".into(), "fetch.agent", "ASCII"),
            (|c| c.fetch.contact = "größe".into(), "fetch.contact", "ASCII"),
            (|c| c.fetch.max_redirects = 21, "fetch.max_redirects", "choose 0 to 20"),
            (|c| c.fetch.max_body = Size::bytes(0), "fetch.max_body", "above 0"),
            (|c| c.fetch.request_timeout = Span::seconds(0), "fetch.request_timeout", "above 0"),
            (
                |c| c.fetch.request_timeout = Span::minutes(2),
                "fetch.request_timeout",
                "is 2m, more than `fetch.task_timeout` (1m): lower it or raise",
            ),
            (|c| c.fetch.read_timeout = Span::seconds(0), "fetch.read_timeout", "above 0"),
            (|c| c.fetch.proxy = "proxy:3128".to_owned().into(), "fetch.proxy", "http://host:port"),
            (|c| c.fetch.proxy = "ftp://p:21".to_owned().into(), "fetch.proxy", "http://host:port"),
            (|c| c.robots.ttl = Span::hours(25), "robots.ttl", "is 25h: choose 1s to 24h"),
            (
                |c| c.schedule.min_interval = Span::hours(25),
                "schedule.min_interval",
                "more than `schedule.max_interval` (24h)",
            ),
            (|c| c.schedule.jitter = 0.6, "schedule.jitter", "is 0.6: choose 0 to 0.5"),
            (|c| c.schedule.jitter = f64::NAN, "schedule.jitter", "choose 0 to 0.5"),
            (|c| c.schedule.default_interval = Span::default(), "schedule.default_interval", "0"),
            (|c| c.schedule.backoff_base = 0.5, "schedule.backoff_base", "choose 1 to 10"),
            (|c| c.schedule.failure_threshold = 0, "schedule.failure_threshold", "choose 1 to"),
            (|c| c.feed.reject_links = vec![" ".into()], "feed.reject_links", "every link"),
            (|c| c.retry.max = 101, "retry.max", "choose 0 to 100"),
            (|c| c.retry.cap = Span::seconds(1), "retry.first", "more than `retry.cap` (1s)"),
            (|c| c.archive.gzip_level = 0, "archive.gzip_level", "choose 1 to 9"),
            (|c| c.archive.gzip_level = 10, "archive.gzip_level", "choose 1 to 9"),
            (|c| c.archive.segment_size = Size::bytes(1), "archive.segment_size", "choose 1MB to"),
            (|c| c.archive.url = "/mnt/archive".into(), "archive.url", "write s3://BUCKET"),
            (|c| c.archive.url = "s3:///news".into(), "archive.url", "names no bucket"),
            (|c| c.archive.url = "s3://a:b@news".into(), "archive.url", "access_key"),
            (
                |c| c.archive.endpoint = "http://a:b@s3.test".into(),
                "archive.endpoint",
                "secret_key",
            ),
            (
                |c| c.archive.endpoint = "http://s3.test/?token=1".into(),
                "archive.endpoint",
                "query",
            ),
            (|c| c.api.public_url = "https://a:b@n.test".into(), "api.public_url", "must be"),
            (|c| c.fetch.contact = "https://a:b@n.test/".into(), "fetch.contact", "password"),
            (|c| c.archive.access_key = "me".into(), "archive.access_key", "set both"),
            (
                |c| drop(c.sinks.insert("two".into(), Sink::new(Target::ndjson("")))),
                "sinks.two.dir",
                "where sink `ndjson` writes too",
            ),
            (
                |c| drop(c.sinks.insert("a b".into(), Sink::new(Target::ndjson("x")))),
                "sinks.a b",
                "letters, digits",
            ),
            (
                |c| {
                    let raw = Target::Ndjson {
                        dir: "x".into(),
                        max_size: Size::default(),
                        compress: false,
                        raw: true,
                        mode: FileMode::default(),
                    };
                    let redact = SinkRedact { emails: Redaction::Hash, ..SinkRedact::default() };
                    drop(c.sinks.insert("two".into(), Sink { redact, ..Sink::new(raw) }));
                },
                "sinks.two.raw",
                "set one of the two",
            ),
            (
                |c| {
                    let mut hook = Target::webhook("https://example.com/".to_owned().into());
                    if let Target::Webhook { secret, .. } = &mut hook {
                        *secret = "whsec_not base64".to_owned().into();
                    }
                    drop(c.sinks.insert("two".into(), Sink::new(hook)));
                },
                "sinks.two.secret",
                "base64 behind whsec_",
            ),
            (
                |c| {
                    let mut search = Target::elasticsearch("http://es:9200".to_owned().into());
                    if let Target::Elasticsearch { index, .. } = &mut search {
                        *index = "News".to_owned();
                    }
                    drop(c.sinks.insert("two".into(), Sink::new(search)));
                },
                "sinks.two.index",
                "small letters",
            ),
        ];
        for (breaking, key, words) in cases {
            let mut config = Config::default();
            breaking(&mut config);
            let problems = validate(&config);
            let [problem] = problems.as_slice() else { panic!("{key}: {problems:?}") };
            assert_eq!((problem.key(), problem.code()), (key, "refused_value"));
            assert!(problem.to_string().contains(words), "{problem}");
        }
    }

    #[test]
    fn a_database_is_embedded_or_postgresql() {
        for (url, words) in [
            ("", None),
            ("file:/var/feeds.db", None),
            ("file:///var/feeds.db", None),
            ("file:feeds.db", None),
            ("file:", Some("names no file")),
            ("file:///", Some("names no file")),
            ("postgres://ann:hunter2@db.example/news", None),
            ("postgresql://ann:hunter2@db.example/news", None),
            ("postgres://ann:hunter2@db.example/news?sslmode=verify-full", None),
            ("postgres://ann:hunter2@db.example/news?sslmode=yes", Some("sslmode is unknown")),
            ("postgres://ann:hunter2@db.example:x/news", Some("cannot be read")),
            ("mysql://ann:hunter2@db.example/news", Some("not supported: use PostgreSQL")),
            ("/var/hunter2.db", Some("is no known database")),
        ] {
            let mut config = Config::default();
            config.database.url = SecretUrl::from(url.to_owned());
            let told = validate(&config).first().map(ToString::to_string);
            assert_eq!(told.is_some(), words.is_some(), "{url}");
            let told = told.unwrap_or_default();
            assert!(told.contains(words.unwrap_or_default()), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
