//! Proxies that a source names: they are no way into a private network.

use std::time::Duration;

use feedmill::app;
use feedmill::clock::Clock;
use feedmill::config::Config;
use feedmill::fetch::{Client, FetchError, Guard};
use feedmill::model::{Access, Code, Exchange, Kind, NewSource, Source, SourceId, Ts, Validators};
use url::Url;

use super::dns;
use super::server::Hostile;

/// Spellings of this machine, and names that lead to it.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "2130706433",
    "0177.0.0.1",
    "0x7f.1",
    "127.1",
    "[::ffff:127.0.0.1]",
    "[::1]",
    "localhost",
    "localhost.",
    "name1.lookup.test",
    "huge2.lookup.test",
];

/// A public address that nobody connects to: the proxy would.
const PUBLISHER: &str = "http://8.8.8.8/feed";

fn source(proxy: &str) -> Source {
    let access = Access { proxy: Some(proxy.to_owned().into()), ..Access::default() };
    Source {
        id: SourceId(1),
        uuid: String::new(),
        spec: NewSource { access, ..NewSource::new("alder", PUBLISHER) },
        enabled_at: None,
        disabled_at: None,
        disable_reason: None,
        created_at: Ts::from_ms(0),
    }
}

async fn get(client: &Client, proxy: &str) -> Result<Exchange, FetchError> {
    let (url, nothing) = (Url::parse(PUBLISHER).unwrap(), Validators::default());
    let source = source(proxy);
    let limit = Duration::from_secs(20);
    client.get(&url, Kind::Feed, &nothing, Some(&source), limit).await
}

#[tokio::test]
async fn no_proxy_of_a_source_leads_to_a_private_address() {
    let hostile = Hostile::start().await;
    let config = Config::default();
    let guard = Guard::with_resolver(&config.fetch, dns::resolver(hostile.tasks()).await);
    let client = app::client_behind(&config, guard, &Clock::system()).unwrap();
    let port = hostile.trap.port();
    for scheme in ["http", "https", "socks5", "socks5h"] {
        for host in HOSTS {
            let proxy = format!("{scheme}://ann:hunter2@{host}:{port}");
            let error = get(&client, &proxy).await.expect_err(&proxy);
            assert_eq!(error.code(), Code::Guarded, "{proxy}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
    assert_eq!(hostile.caught(), 0, "somebody connected to a private address");
}

#[tokio::test]
async fn the_operators_proxy_is_no_publisher() {
    let hostile = Hostile::start().await;
    let mut config = Config::default();
    let port = hostile.trap.port();
    config.fetch.proxy = format!("socks5://name1.lookup.test:{port}").into();
    let guard = Guard::with_resolver(&config.fetch, dns::resolver(hostile.tasks()).await);
    let client = app::client_behind(&config, guard, &Clock::system()).unwrap();
    let url = Url::parse("http://name1.lookup.test:8080/").unwrap();
    let limit = Duration::from_secs(20);
    let error = client.get(&url, Kind::Feed, &Validators::default(), None, limit).await;
    assert_eq!(error.unwrap_err().code(), Code::Guarded);
    assert_eq!(hostile.caught(), 0, "somebody connected to a private address");
}

#[tokio::test]
async fn the_configuration_file_may_lead_there() {
    let hostile = Hostile::start().await;
    let trap = format!("http://{}", hostile.trap);
    // As the operator's own proxy, also where a source repeats it, and in a network that is allowed.
    let mut own = Config::default();
    own.fetch.proxy = trap.clone().into();
    let mut allowed = Config::default();
    allowed.fetch.allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    for (config, count) in [(own, 1), (allowed, 2)] {
        let (client, _) = app::client(&config, &Clock::system()).unwrap();
        let error = get(&client, &trap).await.unwrap_err();
        assert_eq!(error.code(), Code::Network, "the trap answers nothing: {error}");
        assert_eq!(hostile.caught(), count);
    }
}
