//! Tables of what passes and what does not.

use super::*;

fn guard() -> Guard {
    Guard::new(&Fetch::default())
}

fn check(guard: &Guard, url: &str) -> Result<(), Refusal> {
    guard.check_url(&Url::parse(url).unwrap())
}

#[test]
fn private_places_stay_outside_in_any_notation() {
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1./",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0X7F.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0.0x1/",
        "http://127%2e0%2e0%2e1/",
        "http://127。0。0。1/",
        "http://①②⑦.0.0.1/",
        "http://１２７.0.0.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://0.1.2.3/",
        "http://10.0.0.1/",
        "http://167772161/",
        "http://172.16.3.4/",
        "http://172.31.255.255/",
        "http://192.168.1.1/",
        "http://192.168.257/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0xa9fea9fe/",
        "http://100.64.0.1/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://192.0.0.192/",
        "http://198.18.0.1/",
        "http://192.88.99.1/",
        "http://203.0.113.5/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::a00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:470::5efe:7f00:2]/",
        "http://[2001:470::200:5efe:a9fe:a9fe]/",
        "http://[2002:808:808::1]/",
        "http://[2001::1]/",
        "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/",
        "http://[ff02::1]/",
        "http://[2001:db8::1]/",
        "http://[3fff::1]/",
        "http://[100::1]/",
        "http://localhost/",
        "http://LocalHost./",
        "http://news.localhost/",
        "http://localhost.localdomain/",
        "http://ip6-localhost/",
    ] {
        let told = check(&guard(), url);
        assert!(matches!(told, Err(Refusal::Private { .. })), "{url}: {told:?}");
    }
}

#[test]
fn public_addresses_and_names_pass() {
    for url in [
        "http://93.184.216.34/",
        "https://example.com/",
        "https://example.com./",
        "http://localhost.example.com/",
        "http://[2606:2800:220:1::1]/",
        "http://[::ffff:93.184.216.34]/",
        "http://[64:ff9b::5db8:d822]/",
        "http://example.com:8080/",
        "http://example.com:81/",
        "https://example.com:8443/",
    ] {
        assert_eq!(check(&guard(), url), Ok(()), "{url}");
    }
}

#[test]
fn schemes_credentials_and_ports_are_refused() {
    for (url, refusal) in [
        ("file:///etc/passwd", Refusal::Scheme("file".into())),
        ("ftp://example.com/", Refusal::Scheme("ftp".into())),
        ("gopher://example.com/", Refusal::Scheme("gopher".into())),
        ("data:text/html,x", Refusal::Scheme("data".into())),
        ("http://me:secret@example.com/", Refusal::Credentials),
        ("http://me@example.com/", Refusal::Credentials),
        ("http://:secret@example.com/", Refusal::Credentials),
        ("http://example.com:22/", Refusal::Port(22)),
        ("http://example.com:25/", Refusal::Port(25)),
        ("http://example.com:0/", Refusal::Port(0)),
        ("https://example.com:6379/", Refusal::Port(6379)),
        ("http://example.com:5432/", Refusal::Port(5432)),
    ] {
        assert_eq!(check(&guard(), url), Err(refusal), "{url}");
    }
}

#[test]
fn the_operator_may_allow_a_network() {
    let allow_networks = vec!["127.0.0.0/8".parse().unwrap()];
    let guard = Guard::new(&Fetch { allow_networks, ..Fetch::default() });
    for url in ["http://127.0.0.1:8080/", "http://localhost:8080/", "http://[::ffff:127.0.0.1]/"] {
        assert_eq!(check(&guard, url), Ok(()), "{url}");
    }
    for url in ["http://10.0.0.1/", "http://[::1]/", "http://127.0.0.1:22/"] {
        assert!(check(&guard, url).is_err(), "{url}");
    }
}

#[test]
fn the_operator_may_list_hosts_and_ports() {
    let allow_hosts = ["example.com", "*.example.org"].map(|host| host.parse().unwrap()).into();
    let guard = Guard::new(&Fetch { allow_hosts, allow_ports: vec![443], ..Fetch::default() });
    for url in ["https://example.com/", "https://example.com./", "https://a.b.example.org/"] {
        assert_eq!(check(&guard, url), Ok(()), "{url}");
    }
    for url in ["https://www.example.com/", "https://example.org/", "https://93.184.216.34/"] {
        assert!(matches!(check(&guard, url), Err(Refusal::NotListed(_))), "{url}");
    }
    assert_eq!(check(&guard, "http://example.com/"), Err(Refusal::Port(80)));
}

#[tokio::test]
async fn an_override_is_for_its_own_port() {
    let resolve = vec!["*.newsroom.test=127.0.0.1:8099".parse().unwrap()];
    let guard = Guard::new(&Fetch { resolve: resolve.clone(), ..Fetch::default() });
    let check = |guard: &Guard, url: &str| guard.check_url(&Url::parse(url).unwrap()).is_ok();
    assert!(check(&guard, "http://a.newsroom.test/") && check(&guard, "https://a.newsroom.test/"));
    assert!(check(&guard, "http://a.newsroom.test:8099/"));
    assert!(!check(&guard, "http://a.newsroom.test:8050/"), "nobody allowed that one");
    assert!(guard.check_proxy("http://a.newsroom.test:3128").is_err());
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    let open = Guard::new(&Fetch { resolve, allow_networks: networks, ..Fetch::default() });
    assert!(check(&open, "http://a.newsroom.test:8050/"));
}

#[tokio::test]
async fn an_override_answers_before_any_resolver() {
    let resolve = ["*.newsroom.test=127.0.0.1:8099", "*.newsroom.test=127.0.0.1:8098"];
    let resolve = resolve.map(|entry| entry.parse().unwrap()).into();
    let guard = Guard::new(&Fetch { resolve, ..Fetch::default() });
    let found = guard.addresses("alder.newsroom.test").await.unwrap();
    assert_eq!(found, ["127.0.0.1:8099".parse().unwrap(), "127.0.0.1:8098".parse().unwrap()]);
}

#[test]
fn private_answers_are_left_out_and_alone_they_are_refused() {
    let ips = |list: &[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
    let admit = |list: &[&str]| guard().admit("news.example", ips(list));
    let found = admit(&["127.0.0.1", "93.184.216.34", "::1", "10.0.0.1"]).unwrap();
    assert_eq!(found, ["93.184.216.34:0".parse().unwrap()]);
    for answers in [&["127.0.0.1"][..], &["10.0.0.1", "fd00::1"], &["::ffff:169.254.169.254"]] {
        assert!(matches!(admit(answers), Err(FetchError::Guarded(Refusal::Private { .. }))));
    }
    assert!(matches!(admit(&[]), Err(FetchError::Dns { .. })));
}

#[test]
fn a_huge_answer_is_cut() {
    let answers = (0_u32..1_000_000).map(|n| Ipv4Addr::from(0x0808_0000 + n).into());
    assert_eq!(guard().admit("news.example", answers).unwrap().len(), MAX_ADDRESSES);
}
