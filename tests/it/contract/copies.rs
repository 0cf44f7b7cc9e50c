//! Who else has an article's words, and the forms that it has had.

use feedmill::model::{ArticleFact, ArticleId, ArticleRow, Lane, Next, Outcome, Ts, new_uuid};
use feedmill::store::near::Cluster;
use feedmill::store::{Commit, Committed, Reread};
use serde_json::{Value, json};

use super::Open;
use super::events::poll;
use super::ready::article;
use super::trial::{Trial, begin, page, then};

/// So many words that nobody else uses.
fn words(of: &str, from: usize, to: usize) -> String {
    (from..to).map(|n| format!("{of}{n} ")).collect()
}

/// A wire story as a publisher has it: with a head of its own, cut down, and with a tail.
fn local(publisher: &str) -> String {
    format!("{}{}", words(publisher, 0, 30), words("wire", 20, 220))
}

/// A fetch brings this article.
async fn bring(
    trial: &Trial,
    fact: impl FnOnce(ArticleFact) -> ArticleFact,
    url: &str,
    text: &str,
) {
    poll(trial, |base, task| {
        let mut given = article(task, url, text);
        given.article.word_count = u32::try_from(text.split_whitespace().count()).unwrap();
        Outcome { article: Some(fact(given)), ..base }
    })
    .await;
}

async fn bring_text(trial: &Trial, url: &str, text: &str) {
    bring(trial, |fact| fact, url, text).await;
}

fn id(url: &str) -> ArticleId {
    ArticleId::of(url)
}

async fn kept(trial: &Trial, url: &str) -> (ArticleRow, String) {
    trial.store.article(id(url)).await.unwrap().unwrap()
}

async fn last_payload(trial: &Trial) -> Value {
    trial.events().await.pop().unwrap().payload
}

const FIRST: &str = "https://www.a.example/1";

pub(super) async fn the_same_words_at_several_publishers_are_one_cluster(open: Open) {
    let trial = begin(open).await;
    bring_text(&trial, FIRST, &words("wire", 0, 250)).await;
    bring_text(&trial, "https://other.example/1", &words("other", 0, 250)).await;
    let dated = |mut fact: ArticleFact| {
        fact.article.published = Some(Ts::from_ms(1));
        fact
    };
    bring(&trial, dated, "https://b.example/1", &local("b")).await;
    let near = last_payload(&trial).await["near"].take();
    assert_eq!((&near["cluster"], &near["wire"]), (&json!(id(FIRST)), &json!(true)));
    assert!(near["reason"].as_str().unwrap().contains("as well, at several publishers"), "{near}");
    bring_text(&trial, "https://c.example/1", &local("b")).await;
    let told = ["article.new", "article.new", "article.new", "article.duplicate"];
    assert_eq!(trial.kinds_of_events().await, told);

    let (row, _) = kept(&trial, "https://b.example/1").await;
    let near = row.near.unwrap();
    assert_eq!((near.cluster, near.nearest, near.wire), (id(FIRST), id(FIRST), true));
    assert!((0.75..0.95).contains(&near.share), "200 words of 230: {}", near.share);
    let (row, _) = kept(&trial, "https://c.example/1").await;
    let near = row.near.unwrap();
    assert_eq!(row.duplicate_of, Some(id("https://b.example/1")));
    assert_eq!(
        (near.cluster, near.nearest, near.share),
        (id(FIRST), id("https://b.example/1"), 1.0)
    );
    assert_eq!(kept(&trial, FIRST).await.0.near, None);
    // Asked for by any of them, it is the same.
    let of = async |url| Cluster::of(trial.store.copies(id(url)).await.unwrap()).unwrap();
    let cluster = of(FIRST).await;
    let ids: Vec<_> = cluster.articles.iter().map(|row| row.id).collect();
    assert_eq!(ids, [FIRST, "https://b.example/1", "https://c.example/1"].map(id));
    assert_eq!((cluster.cluster, cluster.sites, cluster.wire), (id(FIRST), 3, true));
    assert_eq!((cluster.first.site.as_str(), cluster.first.at), ("b.example", Ts::from_ms(1)));
    assert_eq!(of("https://c.example/1").await, cluster);
    let alone = of("https://other.example/1").await;
    assert_eq!((alone.articles.len(), alone.wire), (1, false));
    assert!(trial.store.copies(id("nobody")).await.unwrap().is_empty());
}

pub(super) async fn copies_of_one_batch_find_each_other(open: Open) {
    let trial = begin(open).await;
    let urls = ["https://a.example/1", "https://b.example/1", "https://c.example/1"];
    trial.submit(urls.map(page)).await;
    let leases = trial.claim(9, Lane::ALL).await;
    assert_eq!(leases.len(), 3);
    let texts = [local("a"), local("b"), local("b")];
    let batch = leases.iter().zip(&texts).map(|(lease, text)| {
        let fact = article(lease.task.id, &lease.task.url, text);
        let outcome = Outcome { article: Some(fact), ..then(Next::Fetched) };
        Commit { lease: lease.clone(), outcome }
    });
    for answer in trial.store.commit(batch.collect()).await {
        assert_eq!(answer.unwrap(), Committed::Done);
    }
    let told = ["article.new", "article.new", "article.duplicate"];
    assert_eq!(trial.kinds_of_events().await, told);
    let leader = ArticleId::of(&leases[0].task.url);
    let rows = trial.store.copies(leader).await.unwrap();
    let clusters: Vec<_> =
        rows.iter().map(|row| row.near.as_ref().map(|near| near.cluster)).collect();
    assert_eq!(clusters, [None, Some(leader), Some(leader)]);
    assert_eq!(rows[2].duplicate_of, Some(rows[1].id));
}

pub(super) async fn an_index_finds_a_copy_among_many_others(open: Open) {
    let trial = begin(open).await;
    bring_text(&trial, FIRST, &words("wire", 0, 250)).await;
    // All of these end with the same words, so that one key leads to all of them.
    let below = words("agency", 0, 40);
    for n in 0..80 {
        let text = format!("{}{below}", words(&format!("s{n}x"), 0, 80));
        bring_text(&trial, &format!("https://s{n}.example/1"), &text).await;
    }
    bring_text(&trial, "https://b.example/1", &format!("{}{below}", local("b"))).await;
    let (row, _) = kept(&trial, "https://b.example/1").await;
    assert_eq!(row.near.unwrap().cluster, id(FIRST));
    let (other, _) = kept(&trial, "https://s79.example/1").await;
    assert_eq!(other.near, None, "a third of its words is in others");
}

pub(super) async fn a_text_whose_first_article_changed_still_has_its_copies(open: Open) {
    let trial = begin(open).await;
    for (url, text) in [
        (FIRST, "the agency's words"),
        ("https://b.example/1", "the agency's words"),
        (FIRST, "our own words"),
        ("https://c.example/1", "the agency's words"),
    ] {
        bring_text(&trial, url, text).await;
    }
    let told = ["article.new", "article.duplicate", "article.updated", "article.duplicate"];
    assert_eq!(trial.kinds_of_events().await, told);
    let (row, _) = kept(&trial, "https://c.example/1").await;
    assert_eq!(row.duplicate_of, Some(id("https://b.example/1")), "the first that still has it");
    // It takes the agency's words back, and is now the copy.
    bring_text(&trial, FIRST, "the agency's words").await;
    let (row, _) = kept(&trial, FIRST).await;
    assert_eq!((row.duplicate_of, row.near), (Some(id("https://b.example/1")), None));
}

pub(super) async fn a_change_keeps_the_form_before_it(open: Open) {
    let trial = begin(open).await;
    let texts = [words("w", 0, 100), words("w", 0, 110), words("w", 5, 110)];
    let mut seen = Vec::new();
    for text in &texts {
        bring_text(&trial, FIRST, text).await;
        seen.push(trial.now());
    }
    assert_eq!(
        last_payload(&trial).await["change"],
        json!({"added": 0, "removed": 5, "silent": false})
    );
    let revisions = trial.store.revisions(id(FIRST)).await.unwrap();
    let told = revisions.iter().map(|form| {
        let change = form.change.map(|change| (change.added, change.removed));
        (form.revision, form.seen, form.word_count, change)
    });
    let wanted = [
        (1, seen[0], 100, None),
        (2, seen[1], 110, Some((10, 0))),
        (3, seen[2], 105, Some((0, 5))),
    ];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
    for (revision, text) in [(1, &texts[0]), (2, &texts[1])] {
        let (form, kept) = trial.store.past(id(FIRST), revision).await.unwrap().unwrap();
        assert_eq!((form.revision, &kept), (revision, text));
    }
    assert_eq!(kept(&trial, FIRST).await.1, texts[2]);
    assert!(trial.store.past(id(FIRST), 3).await.unwrap().is_none(), "it is the one that is kept");
    assert!(trial.store.revisions(id("nobody")).await.unwrap().is_empty());
}

pub(super) async fn a_silent_edit_is_told(open: Open) {
    let trial = begin(open).await;
    for (date, text) in [(5, "one two"), (5, "one three"), (6, "one four")] {
        let dated = |mut fact: ArticleFact| {
            fact.article.updated = Some(Ts::from_ms(date));
            fact
        };
        bring(&trial, dated, FIRST, text).await;
    }
    let silent: Vec<Value> = trial
        .events()
        .await
        .into_iter()
        .skip(1)
        .map(|mut event| event.payload["change"]["silent"].take())
        .collect();
    assert_eq!(silent, [true, false]);
}

pub(super) async fn a_thin_page_leaves_the_text_and_is_told_once(open: Open) {
    let trial = begin(open).await;
    let rich = words("w", 0, 400);
    bring_text(&trial, FIRST, &rich).await;
    let (before, _) = kept(&trial, FIRST).await;
    for _ in 0..3 {
        bring_text(&trial, FIRST, &words("w", 0, 60)).await;
    }
    let told = ["article.new", "article.thin"];
    assert_eq!(trial.kinds_of_events().await, told);
    let payload = last_payload(&trial).await;
    assert_eq!((&payload["words"], &payload["kept_words"]), (&json!(60), &json!(400)));
    let (row, text) = kept(&trial, FIRST).await;
    assert_eq!((row, text), (ArticleRow { last_seen: trial.now(), ..before }, rich));
    // It stays what copies are found by.
    bring_text(&trial, "https://b.example/1", &words("w", 30, 400)).await;
    assert!(kept(&trial, "https://b.example/1").await.0.near.is_some());
}

pub(super) async fn what_is_read_again_keeps_the_form_before_it(open: Open) {
    let trial = begin(open).await;
    trial.submit([page("https://a.example/1")]).await;
    let lease = trial.take().await;
    let fetch = Some(new_uuid(trial.now()));
    let fact =
        |text: &str| ArticleFact { fetch, ..article(lease.task.id, "https://a.example/1", text) };
    let outcome = Outcome { article: Some(fact("with the menu")), ..then(Next::Fetched) };
    trial.commit(&lease, outcome).await;
    let at = trial.now();
    let again =
        Reread { task: lease.task.clone(), entries: vec![], article: Some((at, fact("with"))) };
    assert_eq!(trial.store.reread(again.clone()).await.unwrap(), 1);
    assert_eq!(trial.store.reread(again).await.unwrap(), 0);
    let (_, text) = trial.store.past(id("https://a.example/1"), 1).await.unwrap().unwrap();
    assert_eq!(text, "with the menu");
    assert_eq!(trial.store.revisions(id("https://a.example/1")).await.unwrap().len(), 2);
}
