//! Articles as people look at them: their copies and their past.

use feedmill::clock::Clock;
use feedmill::db::Db;
use feedmill::frontier::{Frontier, TaskFilter};
use feedmill::model::Ts;
use feedmill::store::{Reread, SqliteStore, Store};

use super::Desk;
use crate::contract::ready::article;

pub(super) const FIRST: &str = "https://www.a.example/1";
const COPY: &str = "https://b.example/1";

fn words(of: &str, from: usize, to: usize) -> String {
    (from..to).map(|n| format!("{of}{n} ")).collect()
}

/// A desk whose store has an article in two forms and a copy of it.
pub(super) fn desk() -> Desk {
    let desk = Desk::new();
    desk.ok(&["frontier", "submit", FIRST]);
    let path = desk.path().join("feedmill-data/feedmill.db");
    let rules = feedmill::frontier::Rules {
        key: Default::default(),
        delay: std::time::Duration::ZERO.into(),
        lease: std::time::Duration::from_mins(1),
        robots_for_feeds: false,
        discover: false,
        ignore_pauses: false,
        concurrency: 1,
        groups: vec![],
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::new(Db::open(&path).unwrap(), Clock::system(), rules);
        let task =
            store.list(TaskFilter { limit: 1, ..TaskFilter::default() }).await.unwrap().remove(0);
        let wire = words("wire", 0, 200);
        for (url, text) in [
            (FIRST, format!("{wire} It is not so")),
            (FIRST, format!("{wire} It is so")),
            (COPY, format!("{} {wire}", words("b", 0, 30))),
        ] {
            let mut fact = article(task.id, url, &text);
            // As the handler does: an article is kept under its normalised address.
            let address = feedmill_formats::url::parse(url).unwrap();
            fact.id = feedmill::model::UrlHash::of(&feedmill_formats::url::key(
                &address,
                &Default::default(),
            ));
            fact.article.published = Some(Ts::from_ms(0));
            let read = Reread {
                task: task.clone(),
                entries: vec![],
                article: Some((Ts::from_ms(9), fact)),
            };
            assert_eq!(store.reread(read).await.unwrap(), 1);
        }
        store.close().await;
    });
    desk
}

#[test]
fn copies_and_revisions_are_shown() {
    let desk = desk();
    let told = desk.ok(&["article", "copies", COPY]);
    assert!(told.starts_with("2 articles at 2 sites, first at a.example (1970-01-01"), "{told}");
    assert!(told.contains("b.example") && told.contains(" %"), "{told}");
    let cluster = desk.json(&["article", "copies", FIRST]);
    assert_eq!((&cluster["wire"], &cluster["sites"]), (&true.into(), &2.into()));
    let near = &cluster["articles"][1]["near"];
    assert_eq!((&near["cluster"], &near["wire"]), (&cluster["cluster"], &true.into()));
    assert!(near["share"].as_f64().unwrap() > 0.8, "{near}");
    assert!(desk.ok(&["article", "show", COPY]).contains("as well, at several publishers"));

    let told = desk.ok(&["article", "revisions", FIRST]);
    assert!(told.contains("+0 -1, silent"), "{told}");
    let forms = desk.json(&["article", "revisions", FIRST]);
    assert_eq!(forms["revisions"][1]["change"]["removed"], 1);
    assert!(desk.ok(&["article", "show", FIRST]).ends_with("It is so\n"));
    assert!(desk.ok(&["article", "show", FIRST, "--revision", "1"]).ends_with("It is not so\n"));
    desk.fails(&["article", "show", FIRST, "--revision", "7"], 1, "there is no revision 7 of it");
    for command in ["copies", "revisions"] {
        desk.fails(&["article", command, "https://nobody.example/"], 1, "no article is kept");
    }
}
