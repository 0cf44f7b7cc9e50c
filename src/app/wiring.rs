//! What each part is told of the configuration, in that part's own words.
//!
//! Nothing is decided here: a key becomes the value that somebody works by, and nobody else reads keys.

use std::time::Duration;

use feedmill_formats::url::KeyRules;

use super::{AppError, Reload};
use crate::archive::{self, ArchiveError, Bucket, Reader, Remote};
use crate::clock::Clock;
use crate::config::{
    self, Check, Config, Group, OnServerError, Policy as Choose, RetryMode, SchemeInKey,
    UrlEquality,
};
use crate::db::PgLimits;
use crate::fetch::{Client, ClientSettings, Guard, ServeSettings};
use crate::frontier::Rules;
use crate::handle::probe::Search;
use crate::handle::{
    External, House, RedirectPolicy, Redirects, Refetching, Spidering, Taking, Validation,
};
use crate::model::{PollPolicy, RefetchPolicy};
use crate::schedule::{Backoff, Factors, OnPermanent, OnThreshold, Policy, Waits};
use crate::store::Store;

/// What is configured, with what the store keeps of it. What cannot be used is told, and left out.
pub(super) async fn with_settings(
    config: &Config,
    reload: Option<&Reload>,
    store: &dyn Store,
) -> Config {
    let Some(reload) = reload else { return config.clone() };
    match reload.now(store).await {
        Ok(read) => {
            for warning in &read.warnings {
                tracing::warn!(%warning, "configuration warning");
            }
            config::reload(config, &read.config).config
        }
        Err(error) => {
            tracing::error!(%error, "what `config set` changed cannot be used");
            config.clone()
        }
    }
}

pub(crate) fn key_rules(config: &Config) -> KeyRules {
    KeyRules {
        keep_trailing_slash: config.normalize.keep_trailing_slash,
        keeping: config
            .normalize
            .keep_trailing_slash_on
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect(),
        keep_scheme: config.normalize.scheme_in_key == SchemeInKey::Given,
        exact: config.dedup.url_equality == UrlEquality::Exact,
        tracking: config.normalize.tracking.iter().map(|name| name.to_ascii_lowercase()).collect(),
    }
}

/// How many connections to PostgreSQL, and how long a statement may take.
pub fn pg_limits(config: &Config) -> PgLimits {
    PgLimits {
        connections: config.database.connections,
        statement_timeout: config.database.statement_timeout.duration(),
        maintenance_timeout: config.database.maintenance_timeout.duration(),
        ..PgLimits::default()
    }
}

/// Leases outlast real time limits, whatever clock the store runs on.
pub(super) fn lease(config: &Config, clock: &Clock) -> Duration {
    clock.stretch(config.fetch.task_timeout.duration() * 2)
}

pub(super) fn rules(config: &Config, clock: &Clock) -> Rules {
    Rules {
        key: key_rules(config),
        delay: config.hosts.delay.duration().into(),
        lease: lease(config, clock),
        robots_for_feeds: config.robots.apply_to_feeds,
        concurrency: config.hosts.concurrency,
        groups: config.hosts.groups.iter().map(Group::parts).collect(),
        discover: config.discovery.enabled,
        ignore_pauses: false,
    }
}

pub(super) fn house(config: &Config) -> House {
    House {
        policy: policy(config),
        key: key_rules(config),
        max_decoded: config.fetch.max_decoded.as_len(),
        robots_ttl: config.robots.ttl.duration(),
        robots_agent: robots_agent(&config.user_agent()),
        robots_lenient: config.robots.on_server_error == OnServerError::Allow,
        max_retry_after: config.hosts.max_retry_after.duration(),
        sitemap_max_age: config.sitemap.max_age.duration(),
        min_html_chars: config.extract.min_html_chars,
        max_redirects: config.fetch.max_redirects,
        validation: validation(&config.validation),
        refetch: Refetching {
            policy: match config.refetch.policy {
                config::RefetchPolicy::Never => RefetchPolicy::Never,
                config::RefetchPolicy::Interval => RefetchPolicy::Interval,
                config::RefetchPolicy::OnLastmodNewer => RefetchPolicy::OnLastmodNewer,
            },
            interval: config.refetch.interval.duration(),
            times: config.refetch.times,
        },
        search: Search {
            requests: if config.discovery.enabled { config.discovery.max_requests } else { 0 },
            time: config.discovery.time_limit.duration(),
            again: config.discovery.retry.duration(),
        },
        spider: Spidering {
            max_depth: config.spider.max_depth,
            max_pages: config.spider.max_pages,
            max_page_number: config.spider.max_page_number,
            min_interval: config.spider.min_interval.duration(),
            external: match config.spider.external_links {
                config::External::Candidate => External::Candidate,
                config::External::Submit => External::Submit,
                config::External::Ignore => External::Ignore,
            },
        },
        taking: Taking {
            initial_cap: config.feed.initial_item_cap as usize,
            stale_after: config.feed.stale_after.duration(),
            unwraps: config.feed.unwrap_links,
            rejects: config.feed.reject_links.clone(),
            by_link: config.dedup.use_link_step,
            upgrades: config.normalize.upgrade_stored_url,
        },
        redirects: Redirects {
            policy: match config.redirect.policy {
                config::RedirectPolicy::Alias => RedirectPolicy::Alias,
                config::RedirectPolicy::SubmitFinal => RedirectPolicy::SubmitFinal,
                config::RedirectPolicy::Follow => RedirectPolicy::Follow,
            },
            permanent_only: config.redirect.permanent_only_alias,
        },
    }
}

fn validation(config: &config::Validation) -> Validation {
    let rejects = |check: Check| config.reject.contains(&check);
    let earliest = format!("{:04}-01-01T00:00:00Z", config.earliest_year).parse().ok();
    Validation {
        title: rejects(Check::Title).then_some(config.max_title_chars),
        earliest: earliest.filter(|_| rejects(Check::Date)),
        not_ahead: rejects(Check::Future),
        same_site: rejects(Check::Site),
    }
}

pub(super) fn policy(config: &Config) -> Policy {
    Policy {
        choose: match config.schedule.policy {
            Choose::Value => PollPolicy::Value,
            Choose::Ewma => PollPolicy::Ewma,
            Choose::Fixed => PollPolicy::Fixed,
        },
        feed_interval: config.schedule.default_interval.duration(),
        sitemap_interval: config.schedule.sitemap_interval.duration(),
        min_interval: config.schedule.min_interval.duration(),
        max_interval: config.schedule.max_interval.duration(),
        jitter: config.schedule.jitter,
        jitter_respects_min: config.schedule.jitter_respects_min,
        ewma: Factors {
            up: config.schedule.ewma_up,
            down: config.schedule.ewma_down,
            alpha: config.schedule.ewma_alpha,
            blend: config.schedule.ewma_blend,
        },
        waits: waits(&config.schedule),
        once: config.retry.mode == RetryMode::Once,
        retries: config.retry.max,
        retry_first: config.retry.first.duration(),
        retry_cap: config.retry.cap.duration(),
        seed: 0,
    }
}

fn waits(schedule: &config::Schedule) -> Waits {
    Waits {
        backoff: match schedule.backoff {
            config::Backoff::Table => Backoff::Table,
            config::Backoff::Interval => Backoff::Interval,
            config::Backoff::None => Backoff::None,
        },
        base: schedule.backoff_base,
        cap: schedule.backoff_cap.duration(),
        threshold: schedule.failure_threshold,
        permanent: match schedule.disable_on_permanent {
            config::OnPermanent::AfterAFew => OnPermanent::AfterAFew,
            config::OnPermanent::AtOnce => OnPermanent::AtOnce,
            config::OnPermanent::Never => OnPermanent::Never,
        },
        then: match schedule.on_failure_threshold {
            config::OnThreshold::Cooldown => OnThreshold::Cooldown,
            config::OnThreshold::KeepRetrying => OnThreshold::KeepRetrying,
            config::OnThreshold::Disable => OnThreshold::Disable,
        },
    }
}

/// The product token of an agent string: what robots.txt knows us by.
pub(super) fn robots_agent(agent: &str) -> String {
    agent.split(['/', ' ']).next().unwrap_or_default().to_owned()
}

pub(super) fn archive_settings(config: &Config) -> archive::Settings {
    archive::Settings {
        dir: config.archive_dir(),
        segment_size: config.archive.segment_size.as_bytes(),
        segment_age: config.archive.segment_age.duration(),
        gzip_level: config.archive.gzip_level,
        agent: config.user_agent(),
        max_body: largest_body(config),
    }
}

/// No body that is fetched is larger.
fn largest_body(config: &Config) -> u64 {
    config.fetch.max_body.as_bytes().max(config.fetch.max_sitemap.as_bytes())
}

/// What reads the archive, also beside an engine.
pub fn reader(config: &Config) -> Result<Reader, ArchiveError> {
    let settings = &config.archive;
    let bucket = Bucket {
        url: settings.url.clone(),
        endpoint: settings.endpoint.clone(),
        region: settings.region.clone(),
        access_key: settings.access_key.clone(),
        secret_key: settings.secret_key.expose().to_owned(),
    };
    let remote = (!bucket.url.is_empty()).then(|| Remote::new(&bucket)).transpose()?;
    Ok(Reader::new(config.archive_dir(), remote).with_max_body(largest_body(config)))
}

/// The client, and the guard that it stands behind.
pub fn client(config: &Config, clock: &Clock) -> Result<(Client, Guard), AppError> {
    let guard = Guard::new(&config.fetch);
    Ok((client_behind(config, guard.clone(), clock)?, guard))
}

/// The client behind another guard.
pub fn client_behind(config: &Config, guard: Guard, clock: &Clock) -> Result<Client, AppError> {
    Ok(Client::new(client_settings(config), guard, clock.clone())?)
}

fn client_settings(config: &Config) -> ClientSettings {
    ClientSettings {
        agent: config.user_agent(),
        request_timeout: config.fetch.request_timeout.duration(),
        connect_timeout: config.fetch.connect_timeout.duration(),
        read_timeout: config.fetch.read_timeout.duration(),
        max_body: config.fetch.max_body.as_len(),
        max_sitemap: config.fetch.max_sitemap.as_len(),
        proxy: config.fetch.proxy.clone(),
        bind: config.fetch.bind.clone(),
    }
}

pub(super) fn serve_settings(config: &Config, clock: &Clock) -> ServeSettings {
    ServeSettings {
        task_timeout: config.fetch.task_timeout.duration(),
        max_redirects: config.fetch.max_redirects,
        conditional_pages: config.fetch.conditional_pages,
        lease: lease(config, clock),
        messages: config.log.messages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_know_us_by_the_product_token() {
        assert_eq!(robots_agent("Feedmill/0.1.0 (+https://example.com/bot)"), "Feedmill");
        assert_eq!(robots_agent("NorthCloud-Crawler/1.0 (+https://x)"), "NorthCloud-Crawler");
        assert_eq!(robots_agent("plain"), "plain");
    }
}
