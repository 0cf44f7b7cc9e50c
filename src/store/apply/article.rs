//! What a fact does to an article: is it news, a copy, a change, or much less than is kept?
//!
//! A text that is kept is never lost: a change makes a revision of it, and a page that brings much
//! less (a paywall, an answer that was cut) changes nothing.

use feedmill_formats::sketch::difference;
use serde_json::{Value, json};

use super::is_later;
use crate::model::{ArticleFact, ArticleRow, Change, EventKind, NewEvent, Ts};
use crate::store::near::{Company, nearest};

/// Words that a text may always lose.
const FEW_WORDS: u32 = 50;

/// What becomes of an article's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// What is kept stays.
    Stays,
    /// It is the first one.
    First,
    /// It is another one, and the one before becomes a revision.
    Changed(Change),
}

/// What is kept of an article from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The article.
    pub row: ArticleRow,
    /// Its text.
    pub form: Form,
    /// What the log says.
    pub event: Option<NewEvent>,
}

/// Whether a fact brings a text that is to be kept, so that it matters who else has it.
#[must_use]
pub fn is_news(previous: Option<&ArticleRow>, fact: &ArticleFact) -> bool {
    previous.is_none_or(|row| row.content_hash != fact.content_hash && !is_thin(row, fact))
}

/// What a fetch's fact does to an article. `previous` is what is kept, with its text; `is_told` says
/// that the last fetch brought this very text already.
#[must_use]
pub fn article(
    previous: Option<(ArticleRow, String)>,
    company: &Company,
    fact: &ArticleFact,
    is_told: bool,
    at: Ts,
) -> Kept {
    let Some((before, text)) = previous else { return first(company, fact, at, at) };
    if is_thin(&before, fact) {
        let event = (!is_told).then(|| thin_event(&before, fact, at));
        return Kept { row: ArticleRow { last_seen: at, ..before }, form: Form::Stays, event };
    }
    if before.content_hash == fact.content_hash {
        let row = ArticleRow { last_seen: at, ..read(before, fact) };
        return Kept { row, form: Form::Stays, event: None };
    }
    let kept = changed(before, &text, company, fact, at);
    Kept { row: ArticleRow { last_seen: at, ..kept.row }, ..kept }
}

/// What reading an archived page again does to an article; every difference is a revision. `at` is
/// when the page was fetched.
#[must_use]
pub fn article_again(
    previous: Option<(ArticleRow, String)>,
    company: &Company,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Option<Kept> {
    let Some((before, text)) = previous else { return Some(first(company, fact, at, now)) };
    let is_same = before.article == fact.article
        && text == fact.text
        && (before.content_hash, before.simhash) == (fact.content_hash, fact.simhash);
    if is_same || is_later(before.fetch, fact.fetch) || is_thin(&before, fact) {
        return None;
    }
    Some(changed(before, &text, company, fact, now))
}

/// What is kept in place of an article that cannot be read, where `left` is what can be read of it.
///
/// What its text was is not known any more, so it becomes no revision; the log tells of it only when the
/// text is another than it was.
#[must_use]
pub fn article_mended(
    left: Option<ArticleRow>,
    company: &Company,
    fact: &ArticleFact,
    at: Ts,
    now: Ts,
) -> Kept {
    let Some(left) = left else { return Kept { event: None, ..first(company, fact, at, now) } };
    if left.content_hash == fact.content_hash {
        return Kept { row: read(left, fact), form: Form::First, event: None };
    }
    Kept { form: Form::First, ..changed(left, &fact.text, company, fact, now) }
}

fn first(company: &Company, fact: &ArticleFact, at: Ts, now: Ts) -> Kept {
    let twin = company.twin.as_ref().map(|twin| twin.id);
    let row = ArticleRow {
        id: fact.id,
        task_id: fact.task,
        source: fact.source,
        article: fact.article.clone(),
        content_hash: fact.content_hash,
        simhash: fact.simhash,
        duplicate_of: twin,
        near: nearest(fact, company),
        revision: 1,
        first_seen: at,
        last_seen: at,
        fetch: fact.fetch,
    };
    let kind = if twin.is_some() { EventKind::ArticleDuplicate } else { EventKind::ArticleNew };
    let event = article_event(kind, &row, None, now);
    Kept { row, form: Form::First, event: Some(event) }
}

fn changed(before: ArticleRow, text: &str, company: &Company, fact: &ArticleFact, now: Ts) -> Kept {
    let (added, removed) = difference(text, &fact.text);
    let change = Change { added, removed, silent: is_silent(&before, fact) };
    let (revision, was) = (before.revision.saturating_add(1), before.content_hash);
    let mut row = ArticleRow { revision, ..read(before, fact) };
    if was != fact.content_hash {
        row.duplicate_of = company.twin.as_ref().map(|twin| twin.id);
        // Once among copies it stays there, and who leads others goes nowhere.
        if row.near.is_none() && !company.leads {
            row.near = nearest(fact, company);
        }
    }
    let event = article_event(EventKind::ArticleUpdated, &row, Some(change), now);
    Kept { row, form: Form::Changed(change), event: Some(event) }
}

/// What is kept, with what was read now.
fn read(before: ArticleRow, fact: &ArticleFact) -> ArticleRow {
    ArticleRow {
        source: before.source.or(fact.source),
        article: fact.article.clone(),
        content_hash: fact.content_hash,
        simhash: fact.simhash,
        fetch: fact.fetch,
        ..before
    }
}

/// Whether both come from the same bytes.
fn is_same_fetch(before: &ArticleRow, fact: &ArticleFact) -> bool {
    before.fetch.is_some() && before.fetch == fact.fetch
}

/// Whether another fetch brings less than half of what is kept.
fn is_thin(before: &ArticleRow, fact: &ArticleFact) -> bool {
    let (kept, brought) = (before.article.word_count, fact.article.word_count);
    let lost = kept.saturating_sub(brought);
    lost > brought && lost > FEW_WORDS && !is_same_fetch(before, fact)
}

/// Whether a page has another text and does not say so: its own date is the one that it had.
fn is_silent(before: &ArticleRow, fact: &ArticleFact) -> bool {
    let (was, is) = (&before.article, &fact.article);
    let dates = was.updated.or(was.published).zip(is.updated.or(is.published));
    before.content_hash != fact.content_hash
        && !is_same_fetch(before, fact)
        && dates.is_some_and(|(was, is)| is <= was)
}

fn article_event(kind: EventKind, row: &ArticleRow, change: Option<Change>, at: Ts) -> NewEvent {
    let near = row.near.as_ref().map(|near| {
        let mut told = json!(near);
        if let Some(fields) = told.as_object_mut() {
            fields.insert("reason".to_owned(), Value::String(near.reason()));
        }
        told
    });
    NewEvent {
        kind,
        subject: row.id.to_string(),
        source: row.source,
        payload: json!({
            "article_id": row.id,
            "url": row.article.url,
            "title": row.article.title,
            "published": row.article.published,
            "revision": row.revision,
            "change": change,
            "duplicate_of": row.duplicate_of,
            "near": near,
            "raw_refs": row.fetch.iter().map(|id| json!({"fetch_id": id})).collect::<Vec<_>>(),
            "ingested_at": at,
        }),
    }
}

fn thin_event(row: &ArticleRow, fact: &ArticleFact, at: Ts) -> NewEvent {
    let (kept, brought) = (row.article.word_count, fact.article.word_count);
    NewEvent {
        kind: EventKind::ArticleThin,
        subject: row.id.to_string(),
        source: row.source,
        payload: json!({
            "article_id": row.id,
            "url": fact.article.url,
            "words": brought,
            "kept_words": kept,
            "reason": format!("the page brought {brought} words where {kept} are kept: they stay"),
            "raw_refs": fact.fetch.iter().map(|id| json!({"fetch_id": id})).collect::<Vec<_>>(),
            "ingested_at": at,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::article_fact;
    use super::*;
    use crate::model::{FetchId, new_uuid};
    use crate::store::near::Candidate;

    const URL: &str = "https://a.example/1";

    fn at(ms: i64) -> Ts {
        Ts::from_ms(ms)
    }

    fn alone() -> Company {
        Company::default()
    }

    fn kind(kept: &Kept) -> Option<EventKind> {
        kept.event.as_ref().map(|event| event.kind)
    }

    fn told<'a>(kept: &'a Kept, key: &str) -> &'a Value {
        kept.event.as_ref().unwrap().payload.get(key).unwrap()
    }

    fn long(words: u32, date: Option<i64>) -> ArticleFact {
        let text: String = (0..words).map(|n| format!("w{n} ")).collect();
        let mut fact = article_fact(URL, &text);
        fact.article.word_count = words;
        fact.article.updated = date.map(at);
        fact
    }

    #[test]
    fn an_article_is_new_or_a_copy_and_changes_by_revisions() {
        let fact = article_fact(URL, "text");
        let new = article(None, &alone(), &fact, false, at(1));
        assert_eq!((kind(&new), new.form), (Some(EventKind::ArticleNew), Form::First));
        let before = || Some((new.row.clone(), "text".to_owned()));
        let same = article(before(), &alone(), &fact, false, at(2));
        assert_eq!((kind(&same), same.form, same.row.revision), (None, Form::Stays, 1));
        assert_eq!((same.row.first_seen, same.row.last_seen), (at(1), at(2)));
        let next = article(before(), &alone(), &article_fact(URL, "texts"), false, at(3));
        assert_eq!((kind(&next), next.row.revision), (Some(EventKind::ArticleUpdated), 2));
        let change = Change { added: 1, removed: 1, silent: false };
        assert_eq!((next.form, told(&next, "change")), (Form::Changed(change), &json!(change)));
        let twin = Some(Candidate::of(&fact, None));
        let company = Company { twin, ..alone() };
        let copy =
            article(None, &company, &article_fact("https://b.example/1", "text"), false, at(4));
        assert_eq!(kind(&copy), Some(EventKind::ArticleDuplicate));
        assert_eq!(
            (copy.row.duplicate_of, told(&copy, "duplicate_of")),
            (Some(fact.id), &json!(fact.id))
        );
        assert_eq!(told(&copy, "near").get("cluster"), Some(&json!(fact.id)));
    }

    #[test]
    fn a_change_is_silent_when_the_page_keeps_its_date() {
        let silent =
            |was: Option<i64>, is: Option<i64>, fact: &dyn Fn(ArticleFact) -> ArticleFact| {
                let before = article(None, &alone(), &long(100, was), false, at(1)).row;
                let next = fact(long(99, is));
                match article(Some((before, String::new())), &alone(), &next, false, at(2)).form {
                    Form::Changed(change) => change.silent,
                    form => panic!("{form:?}"),
                }
            };
        let as_is = |fact| fact;
        assert!(silent(Some(5), Some(5), &as_is));
        assert!(!silent(Some(5), Some(6), &as_is));
        assert!(!silent(None, None, &as_is), "it never told any date");
        assert!(!silent(None, Some(5), &as_is));
        let published = |mut fact: ArticleFact| {
            fact.article.published = Some(at(5));
            fact
        };
        assert!(silent(Some(5), None, &published), "only the date of publication is told now");
    }

    #[test]
    fn a_thin_document_changes_nothing_and_is_told_once() {
        let rich = article(None, &alone(), &long(600, None), false, at(1)).row;
        let before = || Some((rich.clone(), long(600, None).text));
        let thin = article(before(), &alone(), &long(120, None), false, at(2));
        assert_eq!((kind(&thin), thin.form), (Some(EventKind::ArticleThin), Form::Stays));
        assert_eq!(thin.row, ArticleRow { last_seen: at(2), ..rich.clone() });
        assert_eq!(told(&thin, "kept_words"), 600);
        assert!(!is_news(Some(&rich), &long(120, None)));
        assert_eq!(kind(&article(before(), &alone(), &long(120, None), true, at(3))), None);
        for words in [300, 599, 601, 5_000] {
            let next = article(before(), &alone(), &long(words, None), false, at(4));
            assert_eq!(kind(&next), Some(EventKind::ArticleUpdated), "{words}");
        }
        let short = article(None, &alone(), &long(60, None), false, at(1)).row;
        let next = article(Some((short, String::new())), &alone(), &long(15, None), false, at(2));
        assert_eq!(kind(&next), Some(EventKind::ArticleUpdated), "it was never rich");
    }

    #[test]
    fn an_article_joins_copies_once_and_a_leader_never_does() {
        let wire = long(200, None);
        let others = vec![Candidate::of(
            &ArticleFact { id: article_fact("x", "").id, ..wire.clone() },
            None,
        )];
        let company = |leads| Company { candidates: others.clone(), leads, ..alone() };
        let stub = article(None, &alone(), &article_fact(URL, "more soon"), false, at(1)).row;
        let before = |row: &ArticleRow| Some((row.clone(), "more soon".to_owned()));
        let joined = article(before(&stub), &company(false), &wire, false, at(2)).row;
        assert_eq!(joined.near.as_ref().map(|near| near.cluster), Some(others[0].id));
        assert_eq!(article(before(&stub), &company(true), &wire, false, at(2)).row.near, None);
        let rewritten = article(before(&joined), &alone(), &long(199, None), false, at(3)).row;
        assert_eq!(rewritten.near, joined.near, "where it came from does not change");
    }

    #[test]
    fn reading_again_changes_what_is_different_and_nothing_that_came_later() {
        let (early, late) = (Some(new_uuid(at(1_000))), Some(new_uuid(at(2_000))));
        let fact =
            |text: &str, fetch: Option<FetchId>| ArticleFact { fetch, ..article_fact(URL, text) };
        let again = |before, fact| article_again(before, &alone(), &fact, at(1_000), at(9));
        let new = again(None, fact("one", early)).unwrap();
        assert_eq!((kind(&new), new.row.revision), (Some(EventKind::ArticleNew), 1));
        assert_eq!((new.row.first_seen, told(&new, "ingested_at")), (at(1_000), &json!(at(9))));
        let kept = Some((new.row, "one".to_owned()));
        assert!(again(kept.clone(), fact("one", early)).is_none());
        let next = again(kept, fact("two", late)).unwrap();
        assert_eq!((kind(&next), next.row.revision), (Some(EventKind::ArticleUpdated), 2));
        assert!(again(Some((next.row, "two".to_owned())), fact("one", early)).is_none());
    }

    #[test]
    fn a_mended_article_is_told_only_when_its_text_is_another() {
        let row = article(None, &alone(), &article_fact(URL, "one"), false, at(1)).row;
        let left = Some(ArticleRow { article: crate::model::Article::default(), ..row.clone() });
        let mend =
            |left, text| article_mended(left, &alone(), &article_fact(URL, text), at(5), at(9));
        let same = mend(left.clone(), "one");
        assert_eq!((same.row, same.form, same.event), (row.clone(), Form::First, None));
        let other = mend(left, "two");
        assert_eq!((kind(&other), other.form), (Some(EventKind::ArticleUpdated), Form::First));
        assert_eq!((other.row.revision, other.row.first_seen), (2, at(1)));
        let anew = mend(None, "one");
        assert_eq!((anew.row.first_seen, anew.event), (at(5), None));
    }

    #[test]
    fn reading_less_in_the_same_bytes_is_a_better_reading_in_others_it_is_thin() {
        let (early, late) = (Some(new_uuid(at(1_000))), Some(new_uuid(at(2_000))));
        let fact = |words, fetch| ArticleFact { fetch, ..long(words, Some(5)) };
        let rich = article(None, &alone(), &fact(600, early), false, at(1)).row;
        let again = |fetch| {
            let before = Some((rich.clone(), String::new()));
            article_again(before, &alone(), &fact(100, fetch), at(1_000), at(9))
        };
        assert!(again(late).is_none());
        let Form::Changed(change) = again(early).unwrap().form else { panic!("it is read anew") };
        assert!(!change.silent, "the page is the same");
    }
}
