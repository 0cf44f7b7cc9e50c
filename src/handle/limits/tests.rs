//! Whatever a publisher writes, what is stored is short, and says where it was cut.

use crate::model::{
    Code, Enclosure, EntryFact, EntryId, EventKind, FeedFact, FeedState, NewEvent, Next, Person,
    TaskId, Warned,
};

use super::*;

const HUGE: usize = 4_000_000;

fn huge(of: &str) -> String {
    of.repeat(HUGE / of.len())
}

fn url() -> String {
    format!("https://a.example/{}", huge("x"))
}

fn huge_entry() -> Entry {
    let person = Person { name: Some(huge("n")), email: Some(huge("e")), uri: Some(url()) };
    let file = |url: String| Enclosure { url, mime: Some(huge("m")), length: None };
    Entry {
        uid: format!("guid:{}", huge("g")),
        canonical_link: Some(url()),
        given_link: Some(url()),
        title: Some(huge("ä")),
        summary: Some(huge("<p>ö</p>")),
        content: Some(huge("<b class='x'>ü</b>")),
        authors: vec![person; 200],
        categories: vec!["c".repeat(10_000); 1_000],
        enclosures: vec![file(url()), file("https://a.example/a.mp3".to_owned())],
        published: None,
        published_raw: Some(huge("1")),
        updated: None,
        updated_raw: Some(huge("2")),
        cut: vec![],
    }
}

#[test]
fn every_field_of_an_entry_has_its_limit() {
    let mut it = huge_entry();
    entry(&mut it);
    let whole = serde_json::to_string(&it).unwrap().len();
    let most = CONTENT_BYTES + SUMMARY_BYTES + TITLE_BYTES + 400_000;
    assert!(whole < most, "{whole} bytes are kept");
    assert_eq!(it.title.as_ref().unwrap().len(), TITLE_BYTES);
    assert_eq!((it.authors.len(), it.categories.len(), it.enclosures.len()), (100, 200, 1));
    assert_eq!((&it.canonical_link, &it.given_link), (&None, &None), "part of a URL is another");
    assert!(it.uid.starts_with("guid:sha256:") && it.uid.len() < 100, "{}", it.uid);
    for markup in [&it.summary, &it.content] {
        let markup = markup.as_ref().unwrap();
        assert!(markup.rfind('>') > markup.rfind('<'), "the last tag is torn");
    }
    let told = ["uid", "canonical_link", "given_link", "title", "summary", "content", "authors"];
    let more = ["categories", "enclosures", "published_raw", "updated_raw"];
    assert_eq!(it.cut, [&told[..], &more[..]].concat());
    // Once cut it stays as it is.
    let mut again = it.clone();
    entry(&mut again);
    assert_eq!(again, Entry { cut: vec![], ..it });
}

#[test]
fn what_is_short_enough_stays_as_it_is() {
    let short = Entry {
        uid: "guid:1".to_owned(),
        canonical_link: Some("https://a.example/1".to_owned()),
        title: Some("x".repeat(TITLE_BYTES)),
        categories: vec!["news".to_owned(); MAX_LABELS],
        authors: vec![],
        enclosures: vec![],
        summary: Some("<p>a</p>".to_owned()),
        content: None,
        given_link: None,
        published_raw: None,
        updated_raw: None,
        published: None,
        updated: None,
        cut: vec![],
    };
    let mut it = short.clone();
    entry(&mut it);
    assert_eq!(it, short);
}

#[test]
fn every_field_of_an_article_has_its_limit() {
    let mut it = Article {
        url: "https://a.example/".to_owned(),
        canonical_url: None,
        title: None,
        authors: vec![],
        published: None,
        updated: None,
        language: None,
        site_name: None,
        section: None,
        tags: vec![],
        lead_image: None,
        abstract_: None,
        word_count: 1,
        method: "test".to_owned(),
        confidence: 1.0,
        rights: Rights::default(),
        cut: vec![],
    };
    it.canonical_url = Some(url());
    it.lead_image = Some(format!("data:image/png;base64,{}", huge("A")));
    it.title = Some(huge("t"));
    it.abstract_ = Some(huge("é"));
    (it.authors, it.tags) = (vec![huge("a"); 200], vec![huge("t"); 300]);
    (it.language, it.site_name, it.section) = (Some(huge("l")), Some(huge("s")), Some(huge("c")));
    it.rights.robots = vec![huge("r"); 300];
    it.rights.uses = (0..300).map(|at| (format!("{at}{}", huge("u")), huge("v"))).collect();
    (it.rights.license, it.rights.copyright) = (Some(huge("l")), Some(huge("c")));
    it.rights.tdm_policy = Some(url());
    let mut text = huge("word ");
    article(&mut it, &mut text);
    assert_eq!(text.len(), TEXT_BYTES);
    let whole = serde_json::to_string(&it).unwrap().len();
    assert!(whole < 600_000, "{whole} bytes are kept");
    let told = ["text", "canonical_url", "lead_image", "title", "abstract", "authors", "tags"];
    assert_eq!(it.cut, [&told[..], &["language", "site_name", "section", "rights"]].concat());
}

#[test]
fn an_outcome_stores_no_long_texts_beside() {
    let mut it = Outcome::new(Code::Ok, Next::Fetched, huge("why "));
    let validators = Validators { etag: Some(huge("e")), last_modified: Some("Mon".to_owned()) };
    it.validators = Some((validators, "https://a.example/".to_owned()));
    let warnings = vec![Warned { code: "x".to_owned(), detail: huge("d"), count: 1 }];
    let state = FeedState { title: Some(huge("t")), warnings, ..FeedState::default() };
    let figures = Default::default();
    it.feed = Some(FeedFact { based_on: 0, state, items: None, new_items: 0, figures });
    it.events.push(NewEvent {
        kind: EventKind::EntryDeleted,
        subject: String::new(),
        source: None,
        payload: serde_json::json!({ "a": [huge("p")] }),
    });
    outcome(&mut it);
    assert_eq!(it.reason.len(), REASON_BYTES);
    let (kept, _) = it.validators.unwrap();
    assert_eq!((kept.etag, kept.last_modified.as_deref()), (None, Some("Mon")));
    let state = it.feed.unwrap().state;
    assert_eq!(state.title.unwrap().len(), TITLE_BYTES);
    assert_eq!(state.warnings[0].detail.len(), REASON_BYTES);
    assert_eq!(it.events[0].payload["a"][0].as_str().unwrap().len(), PAYLOAD_BYTES);
}

#[test]
fn a_long_id_keeps_its_identity() {
    let long = |tail: &str| format!("guid:{}{tail}", huge("g"));
    let fact = |id: &str| EntryFact {
        id: EntryId::of(TaskId(1), id),
        entry: Entry { uid: uid(id.to_owned()), ..huge_entry() },
        content_hash: [0; 32],
        link_hash: None,
        fetch: None,
        slice: None,
    };
    let (one, other) = (fact(&long("1")), fact(&long("2")));
    assert_ne!(one.id, other.id, "told apart by their ends");
    assert_ne!(one.entry.uid, other.entry.uid);
    assert_eq!(uid("guid:short".to_owned()), "guid:short");
}
