//! Which entry an item is, poll after poll, with a memory that answers as the stores do.

use super::*;
use crate::model::{EntryId, LinkedEntry};

/// What the store keeps of a feed.
#[derive(Default)]
struct Memory {
    rows: Vec<EntryFact>,
    feed: FeedState,
}

/// What a poll brought: the ids of new entries, those that are told as changed, and those seen.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    new: Vec<String>,
    changed: Vec<String>,
    seen: usize,
}

impl Memory {
    fn known(&self, ask: &Ask) -> Known {
        let row = |id: EntryId| self.rows.iter().find(|row| row.id == id);
        let mut known = Known { feed: self.feed.clone(), ..Known::default() };
        for asked in &ask.entries {
            if let Some(row) = row(asked.id) {
                known.entries.insert(asked.id, remembered(row));
                continue;
            }
            let page = |row: &&EntryFact| asked.page.is_some() && row.link_hash == asked.page;
            let date = |row: &&EntryFact| asked.date.is_some() && row.entry.published == asked.date;
            let by_page = self.rows.iter().rev().find(page);
            for row in by_page.into_iter().chain(self.rows.iter().filter(date)) {
                if known.kin.iter().any(|other| other.id == row.id) {
                    continue;
                }
                known.kin.push(LinkedEntry {
                    id: row.id,
                    uid: row.entry.uid.clone(),
                    link_hash: row.link_hash,
                    link: row.entry.canonical_link.clone(),
                    title: row.entry.title.clone(),
                    published: row.entry.published,
                    content_hash: row.content_hash,
                });
            }
        }
        known
    }

    fn poll(&mut self, items: &[&str]) -> Told {
        let lease = lease(Kind::Feed, FEED);
        let reply = Reply::Answer(Box::new(answer(FEED, 200, &[], &feed_of(items))));
        let (parsed, ask) = parse(&lease, &reply, &house());
        let outcome = decide(&lease, parsed, &self.known(&ask), at(), &house());
        let fact = outcome.feed.unwrap();
        let mut told = Told { seen: outcome.seen.len(), ..Told::default() };
        for entry in outcome.entries {
            let old = self.rows.iter_mut().find(|row| row.id == entry.id);
            let list = match &old {
                None => Some(&mut told.new),
                Some(old) if old.content_hash != entry.content_hash => Some(&mut told.changed),
                Some(_) => None,
            };
            list.into_iter().for_each(|list| list.push(entry.entry.uid.clone()));
            match old {
                Some(old) => *old = entry,
                None => self.rows.push(entry),
            }
        }
        assert_eq!(told.new.len(), fact.new_items as usize, "the scheduler hears of the same");
        self.feed = fact.state;
        told
    }
}

fn item(guid: &str, title: &str, page: &str, date: &str) -> String {
    let mut item = String::new();
    for (name, text) in [("guid", guid), ("title", title), ("link", page), ("pubDate", date)] {
        if !text.is_empty() {
            item.push_str(&format!("<{name}>{text}</{name}>"));
        }
    }
    item
}

#[test]
fn an_id_that_several_items_share_is_no_id() {
    let mut memory = Memory::default();
    let shared = |n: u8| item("same", &format!("S{n}"), &format!("https://example.com/{n}"), "");
    let told = memory.poll(&[&shared(1), &shared(2), &shared(3)]);
    assert_eq!(told.new.len(), 3);
    let told = memory.poll(&[&shared(4), &shared(1), &shared(2)]);
    assert_eq!((told.new.len(), told.changed.len(), told.seen), (1, 0, 2));
    // Alone it is believed, and still the entry that it was.
    let told = memory.poll(&[&shared(4)]);
    assert_eq!((told.new.len(), told.changed.len()), (0, 0));
    // The same item twice is one.
    let mut memory = Memory::default();
    let twice = item("same", "S1", "https://example.com/other", "");
    assert_eq!(memory.poll(&[&shared(1), &twice]).new, ["guid:same"]);
}

#[test]
fn items_of_nothing_but_text_are_told_apart_by_it() {
    let mut memory = Memory::default();
    let text = |n: u8| format!("<description>only text {n}</description>");
    assert_eq!(memory.poll(&[&text(1), &text(2)]).new.len(), 2);
    let told = memory.poll(&[&text(3), &text(1), &text(2)]);
    assert_eq!((told.new.len(), told.changed.len(), told.seen), (1, 0, 2));
}

#[test]
fn ids_that_do_not_last_are_not_used_from_then_on() {
    let mut memory = Memory::default();
    let story = |run: &str, n: u8, title: &str| {
        item(&format!("{run}{n}"), title, &format!("https://example.com/{n}"), "")
    };
    let all = |run: &str| [1, 2, 3].map(|n| story(run, n, &format!("Story {n}")));
    let first = all("a");
    memory.poll(&first.each_ref().map(String::as_str));
    let [one, two, three] = all("b");
    let told = memory.poll(&[&one, &two, &three, &story("b", 4, "Story 4")]);
    assert_eq!(
        told,
        Told { new: vec!["link:https://example.com/4".into()], seen: 3, ..told_none() }
    );
    assert!(memory.feed.by_pages);
    // Whatever title and id it has, and however few stand in the feed.
    let told = memory.poll(&[&story("c", 1, "Another title")]);
    assert_eq!(told, Told { changed: vec!["guid:a1".into()], ..told_none() });
    let told = memory.poll(&[&story("d", 4, "Another too"), &story("d", 5, "Story 5")]);
    assert_eq!(told.new, ["link:https://example.com/5"]);
    assert_eq!(told.changed, ["link:https://example.com/4"]);
}

fn told_none() -> Told {
    Told::default()
}

#[test]
fn a_new_id_with_another_title_or_a_shared_page_is_a_new_entry() {
    let mut memory = Memory::default();
    let page = "https://example.com/live";
    let old = item("1", "Old", page, "");
    memory.poll(&[&old]);
    assert_eq!(memory.poll(&[&item("2", "New", page, "")]).new, ["guid:2"]);
    let mut memory = Memory::default();
    memory.poll(&[&old]);
    let twin = format!("{}<description>More</description>", item("3", "Old", page, ""));
    assert_eq!(memory.poll(&[&twin, &old]).new, ["guid:3"], "both stand in the feed");
    let mut memory = Memory::default();
    memory.poll(&[&old]);
    assert_eq!(memory.poll(&[&twin]).changed, ["guid:1"], "the same under another id");
}

#[test]
fn items_at_one_page_with_ids_that_do_not_last_are_known_by_title_and_date() {
    let mut memory = Memory::default();
    let home = |run: &str, n: u8| {
        item(&format!("{run}{n}"), &format!("T{n}"), "https://example.com/", "2026-11-01T10:00:00Z")
    };
    memory.poll(&[&home("a", 1), &home("a", 2), &home("a", 3)]);
    let told = memory.poll(&[&home("b", 1), &home("b", 2), &home("b", 3)]);
    assert_eq!(told, Told { seen: 3, ..told_none() });
}

#[test]
fn an_entry_without_an_id_is_known_by_page_and_title_or_date() {
    let by = |title: &str, day: &str| {
        item("", title, &format!("https://example.com/a?utm_medium={title}"), day)
    };
    let cases = [
        ("A", "2026-11-01", 0),
        ("B", "2026-11-01", 0),
        ("A", "2026-11-02", 0),
        ("B", "2026-11-02", 1),
    ];
    for (title, day, new) in cases {
        let mut memory = Memory::default();
        memory.poll(&[&by("A", "2026-11-01")]);
        assert_eq!(memory.poll(&[&by(title, day)]).new.len(), new, "{title} {day}");
    }
    let mut memory = Memory::default();
    memory.poll(&[&by("A", "")]);
    let told = memory.poll(&[&by("A, corrected", "")]);
    assert_eq!((told.new.len(), told.changed.len()), (0, 1), "the page is all there is");
}

#[test]
fn a_page_whose_address_does_not_last_is_the_entry_of_its_title_and_date() {
    let mut memory = Memory::default();
    let by = |session: u8, title: &str| {
        let page = format!("https://example.com/v?session={session}");
        item("", title, &page, "2026-11-01T10:00:00Z")
    };
    memory.poll(&[&by(1, "A")]);
    assert_eq!(memory.poll(&[&by(2, "A")]), Told { seen: 1, ..told_none() });
    assert_eq!(memory.poll(&[&by(3, "A"), &by(4, "B")]).new.len(), 1);
}

#[test]
fn what_only_tracks_is_no_change() {
    let mut memory = Memory::default();
    let by = |run: u8| item("x", "A", &format!("https://example.com/a?utm_source={run}"), "");
    memory.poll(&[&by(1)]);
    assert_eq!(memory.poll(&[&by(2)]), Told { seen: 1, ..told_none() });
}

#[test]
fn a_date_is_kept_when_it_is_gained_or_corrected_and_not_when_all_of_them_slide() {
    let mut memory = Memory::default();
    let by =
        |n: u8, date: &str| item(&n.to_string(), "A", &format!("https://example.com/{n}"), date);
    let date_of =
        |memory: &Memory, n: usize| memory.rows[n].entry.published.map(|at| at.to_string());
    memory.poll(&[
        &by(0, "sometime"),
        &by(1, "2026-11-01T10:00:00Z"),
        &by(2, "2026-11-01T11:00:00Z"),
    ]);
    assert_eq!(date_of(&memory, 0), None);
    let told = memory.poll(&[
        &by(0, "2026-11-01T09:00:00Z"),
        &by(1, "2026-11-01T10:30:00Z"),
        &by(2, "2026-11-01T11:00:00Z"),
    ]);
    assert_eq!((told.new.len(), told.changed.len()), (0, 0));
    assert_eq!(date_of(&memory, 0).as_deref(), Some("2026-11-01T09:00:00Z"));
    assert_eq!(date_of(&memory, 1).as_deref(), Some("2026-11-01T10:30:00Z"));
    let now = "2026-11-15T11:00:00Z";
    memory.poll(&[&by(0, now), &by(1, now), &by(2, now)]);
    assert_eq!(date_of(&memory, 1).as_deref(), Some("2026-11-01T10:30:00Z"));
}

#[test]
fn an_item_that_stands_twice_is_one_entry_and_a_date_to_come_is_no_fact() {
    let mut memory = Memory::default();
    let date = "Mon, 01 Jan 2035 00:00:00 GMT";
    let one = format!(
        "{}<atom:updated>{date}</atom:updated>",
        item("", "A", "https://example.com/a", date)
    );
    let again = format!("<guid>x</guid>{one}");
    assert_eq!(memory.poll(&[&one, &again]).new.len(), 1);
    let entry = &memory.rows[0].entry;
    assert_eq!((entry.published, entry.published_raw.as_deref()), (None, Some(date)));
    assert_eq!((entry.updated, entry.updated_raw.as_deref()), (None, Some(date)));
}
