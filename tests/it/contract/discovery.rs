//! Searches for channels: what is kept of them, and how what was only looked at becomes a channel.

use feedmill::frontier::Rules;
use feedmill::model::{
    Ask, Code, Discovery, DiscoveryFact, Kind, NewSource, NewTask, Next, Origin, Outcome, Source,
    Status, Tried,
};
use feedmill::store::Committed;
use feedmill_formats::discover::{Candidate, Form, How};

use super::Open;
use super::trial::{DAY, Trial, a, begin, feed, noon, owned_by, page, rules, then};

const HOME: &str = "https://a.example/";
const RSS: &str = "https://a.example/rss";

async fn home_page(open: Open) -> (Trial, Source) {
    let trial = open(noon(), Rules { discover: true, ..rules() }).await;
    let source = trial.store.add_source(NewSource::new("a", HOME)).await.unwrap();
    (trial, source)
}

fn state() -> Discovery {
    Discovery {
        requests: 2,
        tried: vec![Tried { url: HOME.into(), how: How::Itself, why: "a page".into() }],
        left: vec![Candidate::new("https://a.example/f", How::Alternate, Form::Feed)],
        ..Discovery::default()
    }
}

pub(super) async fn a_source_without_channels_has_its_home_page_looked_at(open: Open) {
    let (trial, source) = home_page(open).await;
    let lease = trial.take().await;
    assert_eq!((lease.task.url.as_str(), lease.task.kind), (HOME, Kind::Probe));
    assert_eq!(lease.task.source, Some(source.id));
    let asks = |new: NewSource| async { trial.store.add_source(new).await.map(|_| ()).unwrap() };
    let before = trial.tasks().await.len();
    asks(NewSource { discover: false, ..NewSource::new("b", "https://b.example/") }).await;
    assert_eq!(trial.tasks().await.len(), before, "who does not want it is left alone");
    let quiet = begin(open).await;
    quiet.store.add_source(NewSource::new("a", HOME)).await.unwrap();
    assert_eq!(quiet.tasks().await, [], "nor is anybody where the house does not look");
}

pub(super) async fn a_search_is_kept_and_what_it_finds_becomes_a_channel(open: Open) {
    let (trial, source) = home_page(open).await;
    let home = trial.take().await;
    let probe = NewTask {
        depth: 1,
        parent: Some(home.task.id),
        origin: Origin::Manual,
        ..owned_by(&source, a(Kind::Probe, RSS))
    };
    let fact = DiscoveryFact { state: state(), becomes: None, channels: vec![] };
    let outcome = Outcome {
        discovery: Some(fact),
        discovered: vec![probe],
        ..then(Next::Again { at: home.now.after(7 * DAY) })
    };
    assert_eq!(trial.commit(&home, outcome).await, Committed::Done);
    let ask = Ask {
        discovery: Some(source.id),
        leads: vec![RSS.into(), "https://a.example/none".into()],
        ..Ask::default()
    };
    let known = trial.store.lookup(ask.clone()).await.unwrap();
    assert_eq!(known.discovery, Some(state()));
    assert_eq!(known.leads.len(), 1);
    assert_eq!((known.leads[RSS].kind, known.leads[RSS].status), (Kind::Probe, Status::Pending));

    trial.pass(DAY);
    let lease = trial.take().await;
    assert_eq!(lease.task.url, RSS);
    let over = Discovery { ended: Some(trial.now()), ..state() };
    let fact = DiscoveryFact {
        state: over.clone(),
        becomes: Some(Kind::Feed),
        channels: vec![(Kind::Feed, RSS.into())],
    };
    let settled = owned_by(&source, a(Kind::Probe, HOME));
    let outcome = Outcome {
        discovery: Some(fact),
        settled: Some(settled),
        ..then(Next::Again { at: lease.now.after(DAY) })
    };
    assert_eq!(trial.commit(&lease, outcome).await, Committed::Done);
    let (source, channels) = trial.store.source("a").await.unwrap();
    assert_eq!(source.spec.feed_urls, [RSS]);
    assert_eq!((channels.len(), channels[0].kind), (1, Kind::Feed));
    assert_eq!(trial.task(HOME).await.status, Status::Fetched, "the home page is done with");
    assert_eq!(trial.store.discoveries().await.unwrap(), [(source.id, over)]);
    trial.pass(DAY);
    assert_eq!(trial.take().await.task.kind, Kind::Feed, "and is polled from then on");
    trial.store.remove_source("a").await.unwrap();
    assert_eq!(trial.store.discoveries().await.unwrap(), []);
}

pub(super) async fn what_was_only_looked_at_is_what_somebody_says_it_is(open: Open) {
    let trial = begin(open).await;
    let source = trial.source("a", &[]).await;
    trial.submit([owned_by(&source, a(Kind::Probe, RSS))]).await;
    let lease = trial.take().await;
    trial.end(&lease, Next::Dead { code: Code::NotFound }).await;
    trial.pass(DAY / 2);
    let told =
        |source| NewTask { parent: Some(lease.task.id), ..owned_by(source, a(Kind::Probe, RSS)) };
    trial.submit([told(&source)]).await;
    assert!(trial.idle().await, "it was looked at lately");
    trial.pass(DAY);
    trial.submit([told(&source)]).await;
    let lease = trial.take().await;
    trial.end(&lease, Next::Dead { code: Code::NotFound }).await;
    trial.pass(DAY / 24);
    let other = trial.source("b", &[]).await;
    trial.submit([owned_by(&other, a(Kind::Probe, RSS))]).await;
    assert_eq!(
        trial.task(RSS).await.source,
        Some(other.id),
        "on the operator's word, for whom it is"
    );
    let lease = trial.take().await;
    trial.end(&lease, Next::Dead { code: Code::NotFound }).await;
    trial.submit([owned_by(&source, feed(RSS))]).await;
    trial.pass(DAY / 24);
    let lease = trial.take().await;
    assert_eq!((lease.task.url.as_str(), lease.task.kind), (RSS, Kind::Feed));
    trial.end(&lease, Next::Again { at: lease.now.after(DAY) }).await;
    trial.submit([owned_by(&source, a(Kind::Probe, RSS))]).await;
    assert_eq!(trial.task(RSS).await.kind, Kind::Feed, "a feed is not looked at for feeds");
}

pub(super) async fn one_task_is_handed_out_before_all_others(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1"), feed(RSS), feed("https://b.example/f")]).await;
    let wanted = trial.task(RSS).await.id;
    let lease = trial.store.claim_task(wanted).await.unwrap().unwrap();
    assert_eq!(lease.task.id, wanted);
    assert!(trial.store.claim_task(wanted).await.unwrap().is_none(), "its host is asked");
    trial.end(&lease, Next::Again { at: lease.now.after(DAY) }).await;
    trial.pass(DAY / 24);
    assert!(trial.store.claim_task(wanted).await.unwrap().is_none(), "it is not due");
    trial.pass(DAY);
    assert_eq!(trial.store.claim_task(wanted).await.unwrap().unwrap().task.id, wanted);
    let page = trial.task("https://a.example/1").await.id;
    assert!(trial.store.claim_task(page).await.unwrap().is_none());
    // What robots.txt rules comes after it.
    let map = a(Kind::Sitemap, "https://c.example/sitemap.xml");
    trial.submit([map]).await;
    let map = trial.task("https://c.example/sitemap.xml").await.id;
    let first = trial.store.claim_task(map).await.unwrap().unwrap();
    assert_eq!(first.task.kind, Kind::Robots);
    assert_eq!(trial.commit(&first, super::trial::allow_all(&first)).await, Committed::Done);
    assert_eq!(trial.store.claim_task(map).await.unwrap().unwrap().task.id, map);
}
