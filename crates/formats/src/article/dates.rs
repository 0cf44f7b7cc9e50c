//! When an article was published and changed, and which day its page shows.
//!
//! Twenty places of a page may tell a day. Each different day is a candidate; how many places name
//! it, and which, says how likely it is the article's. Instants are taken from declarations only.

use std::sync::LazyLock;

use super::Evidence;
use super::day::{self, Day};
use super::declared::Declared;
use super::features::Row;
use super::form::count;
use super::marks::Mark;
use super::model::Model;
use super::page::Page;
use crate::date::{self, Ts};

static MODEL: LazyLock<Option<Model>> =
    LazyLock::new(|| Model::read(include_str!("model/dates.txt")));

const PUBLISHED: &[&str] = &[
    "article:published_time",
    "article:published",
    "og:published_time",
    "og:article:published_time",
    "datepublished",
    "date_published",
    "parsely-pub-date",
    "sailthru.date",
    "article.published",
    "cxenseparse:recs:publishtime",
    "cxenseparse:publishtime",
    "publish-date",
    "publish_date",
    "publishdate",
    "pubdate",
    "pub_date",
    "publication_date",
    "publicationdate",
    "published",
    "dc.date.issued",
    "dcterms.created",
    "dcterms.date",
    "dcterms.issued",
    "dc.date.created",
    "dc.date",
    "dc:date",
    "dcterms.available",
    "citation_publication_date",
    "citation_date",
    "citation_online_date",
    "date",
    "originalpublicationdate",
    "og:pubdate",
    "rnews:datepublished",
    "shareaholic:article_published_time",
    "bt:pubdate",
    "created",
    "datecreated",
    "article_date_original",
    "timestamp",
    "creation_date",
    "displaydate",
    "og:regdate",
    "article:post_date",
    "mediator_published_time",
    "vr:published_time",
    "release_date",
    "pdate",
    "live_date",
    "dc.date.publication",
];
const UPDATED: &[&str] = &[
    "article:modified_time",
    "og:updated_time",
    "datemodified",
    "lastmod",
    "last-modified",
    "modified",
    "dcterms.modified",
    "dc.date.modified",
    "revised",
    "article:updated",
    "og:modified_time",
];

/// The places that may tell a day.
const SOURCES: [&str; 20] = [
    "ldp", "mp", "ldany", "ldc", "ldm", "mm", "tpub", "tany", "near", "nearb", "cls", "url", "kw",
    "first", "any", "kpub", "kupd", "feed", "rawp", "rawm",
];
/// Those whose day is looked at when it is next to a candidate.
const NEIGHBOURS: [(&str, &str); 5] = [
    ("ldp", "d1_ldp"),
    ("mp", "d1_mp"),
    ("near", "d1_near"),
    ("tany", "d1_tany"),
    ("url", "d1_url"),
];

/// So many blocks behind the heading may still be about the article as a whole.
const BYLINE: usize = 20;

/// Words before the day of publication, and of any day.
const PUBLISHING: &str = "publi|posted|post |veröff|erstellt|created|geschrieben|written";
const UPDATING: &str =
    "updat|aktualis|modif|geändert|stand|last|reviewed|zuletzt|mis à jour|actualiz|aggiorn";
const SPEAKING: &str = "published|posted|veröffentlicht|erstellt|publié|publicado|stand|datum|date|\
    vom|am|on|updated|aktualisiert";

/// A day, and a bit for every place that tells it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub day: Day,
    sources: u32,
}

/// The days of a page.
#[derive(Clone, Debug)]
pub(super) struct Days {
    told: [Option<Day>; SOURCES.len()],
    pub candidates: Vec<Candidate>,
}

/// Whether numbers like 3/4/2020 have the month first.
fn month_first(declared: &Declared, url: &str) -> bool {
    let language = declared.language.as_deref().unwrap_or_default().to_ascii_lowercase();
    let host = url.split('/').nth(2).unwrap_or_default();
    language.starts_with("en-us") || host.ends_with(".com")
}

impl Days {
    pub(super) fn collect(
        declared: &Declared,
        page: &Page,
        url: &str,
        evidence: &Evidence<'_>,
    ) -> Self {
        let first = month_first(declared, url);
        let find = |text: &str| Day::find(text, first);
        let ld = |text: &Option<String>| text.as_deref().and_then(find);
        let not_updated = |name: &str| !(name.contains("modif") || name.contains("updat"));
        let publishes = |name: &str| {
            ["publ", "posted", "created", "date"].iter().any(|word| name.contains(word))
        };
        let time = |wanted: &dyn Fn(&str) -> bool| {
            let times =
                page.times.iter().filter(|time| not_updated(&time.name) && wanted(&time.name));
            times.into_iter().find_map(|time| find(&time.value).or_else(|| find(&time.text)))
        };
        let heading = page.headings.first().map_or(0, |(_, block)| *block);
        let texts = Texts { page, find: &find };
        let mut told = [
            ld(&declared.ld.published),
            declared.first_meta(PUBLISHED, find),
            ld(&declared.ld.other_published),
            ld(&declared.ld.created),
            ld(&declared.ld.updated),
            declared.first_meta(UPDATED, find),
            time(&publishes),
            time(&|_| true),
            texts.first(heading..heading + 12, 150),
            texts.first_back(heading.saturating_sub(8)..heading, 120),
            texts.dated(),
            Day::in_address(url),
            texts.spoken(0..page.blocks.len(), SPEAKING, 200, true),
            texts.first(0..page.blocks.len(), 120),
            texts.first(0..page.blocks.len(), usize::MAX),
            texts.spoken(heading.saturating_sub(8)..heading + 14, PUBLISHING, 160, false),
            texts.spoken(heading.saturating_sub(8)..heading + 14, UPDATING, 160, false),
            evidence.published.and_then(|at| find(&at.day())),
            declared.raw_published.as_deref().and_then(find),
            declared.raw_updated.as_deref().and_then(find),
        ];
        mend(&mut told);
        // A declared day that can be read in two ways is the one that the page shows.
        let [_, declares, ..] = &mut told;
        let other = declared.first_meta(PUBLISHED, |text| Day::find(text, !first));
        if other != *declares && texts.show(other) && !texts.show(*declares) {
            *declares = other;
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for (bit, day) in told.iter().enumerate().filter_map(|(bit, day)| Some((bit, (*day)?))) {
            match candidates.iter_mut().find(|known| known.day == day) {
                Some(known) => known.sources |= 1 << bit,
                None => candidates.push(Candidate { day, sources: 1 << bit }),
            }
        }
        Self { told, candidates }
    }

    fn day_of(&self, source: &str) -> Option<Day> {
        let at = SOURCES.iter().position(|known| *known == source)?;
        self.told.get(at).copied().flatten()
    }

    /// Tells everything about a candidate, and about all of them together.
    pub(super) fn tell(&self, candidate: &Candidate, row: &mut Row) {
        row.clear();
        let one = |is: bool| f32::from(u8::from(is));
        let has = |source: &str| self.day_of(source) == Some(candidate.day);
        for (bit, source) in SOURCES.into_iter().enumerate() {
            row.put(source, one(candidate.sources >> bit & 1 == 1));
        }
        for (source, name) in NEIGHBOURS {
            let near = self.day_of(source).is_some_and(|day| day.is_next_to(candidate.day));
            row.put(name, one(near));
        }
        let published = has("ldp") || has("mp") || has("ldany");
        let shown = ["near", "nearb", "cls", "tany", "first"].iter().any(|source| has(source));
        let updated = has("ldm") || has("mm");
        row.put("pub_shown", one(published && shown));
        row.put("upd_shown", one(updated && shown && !published));
        let days = || self.candidates.iter().map(|other| other.day);
        row.put("latest", one(days().max() == Some(candidate.day)));
        row.put("earliest", one(days().min() == Some(candidate.day)));
        row.put("number", count(candidate.sources.count_ones() as usize));
        for (source, name) in SOURCES.into_iter().zip(PAGE) {
            row.put(name, one(self.day_of(source).is_some()));
        }
        row.put("candidates", count(self.candidates.len()));
    }

    /// The most likely day.
    pub(super) fn best(&self) -> Option<Day> {
        let model = MODEL.as_ref()?;
        let mut row = Row::new(None);
        let mut best: Option<(f32, Day)> = None;
        for candidate in &self.candidates {
            self.tell(candidate, &mut row);
            let score = model.score(&row.values);
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, candidate.day));
            }
        }
        best.map(|(_, day)| day)
    }
}

/// The names of what is told of the page.
const PAGE: [&str; SOURCES.len()] = [
    "p_ldp", "p_mp", "p_ldany", "p_ldc", "p_ldm", "p_mm", "p_tpub", "p_tany", "p_near", "p_nearb",
    "p_cls", "p_url", "p_kw", "p_first", "p_any", "p_kpub", "p_kupd", "p_feed", "p_rawp", "p_rawm",
];

/// A shown day that is a declared one with day and month exchanged is the declared one.
fn mend(told: &mut [Option<Day>; SOURCES.len()]) {
    let places = |names: &[&str]| -> Vec<usize> {
        names.iter().filter_map(|name| SOURCES.iter().position(|known| known == name)).collect()
    };
    let declared: Vec<Day> =
        places(&["ldp", "mp", "ldany", "ldm", "mm", "ldc", "url", "tpub", "rawp"])
            .into_iter()
            .filter_map(|place| told.get(place).copied().flatten())
            .collect();
    for place in places(&["near", "nearb", "cls", "kw", "first", "any", "kpub", "kupd"]) {
        if let Some(Some(day)) = told.get_mut(place)
            && !declared.contains(day)
            && let Some(swapped) = day.swapped().filter(|swapped| declared.contains(swapped))
        {
            *day = swapped;
        }
    }
}

struct Texts<'a> {
    page: &'a Page,
    find: &'a dyn Fn(&str) -> Option<Day>,
}

impl Texts<'_> {
    fn short(&self, block: usize, most: usize) -> Option<&str> {
        let text = self.page.text_at(block);
        (text.len() <= most && day::may_hold(text) && !self.is_comment(block)).then_some(text)
    }

    /// Whether a block is of a comment, whose day is another's.
    fn is_comment(&self, block: usize) -> bool {
        let heading = self.page.headings.first().map_or(0, |(_, block)| *block);
        let node = self.page.blocks.get(block).and_then(|block| self.page.node_of(block));
        block > heading + BYLINE && node.is_some_and(|node| node.marks.has(Mark::Comment))
    }

    fn first(&self, blocks: std::ops::Range<usize>, most: usize) -> Option<Day> {
        let end = blocks.end.min(self.page.blocks.len());
        (blocks.start..end).find_map(|block| (self.find)(self.short(block, most)?))
    }

    fn first_back(&self, blocks: std::ops::Range<usize>, most: usize) -> Option<Day> {
        blocks.rev().find_map(|block| (self.find)(self.short(block, most)?))
    }

    /// Whether a short block shows this day.
    fn show(&self, wanted: Option<Day>) -> bool {
        let shown = |block| self.short(block, 120).and_then(self.find);
        wanted.is_some() && (0..self.page.blocks.len()).any(|block| shown(block) == wanted)
    }

    /// A day in an element that is named after one.
    fn dated(&self) -> Option<Day> {
        (self.page.blocks.iter().enumerate()).find_map(|(index, block)| {
            let text = self.short(index, 150)?;
            let named = self.page.node_of(block)?.marks.has(Mark::Dated);
            if named { (self.find)(text) } else { None }
        })
    }

    /// A day after a word that speaks of one.
    fn spoken(
        &self,
        blocks: std::ops::Range<usize>,
        words: &str,
        most: usize,
        cut: bool,
    ) -> Option<Day> {
        let end = blocks.end.min(self.page.blocks.len());
        (blocks.start..end).find_map(|block| {
            let text = self.short(block, if cut { usize::MAX } else { most })?;
            let text: String = text.chars().take(most).flat_map(char::to_lowercase).collect();
            let (at, word) =
                words.split('|').filter_map(|word| Some((text.find(word)?, word))).min()?;
            let rest: String = text.get(at + word.len()..)?.chars().take(60).collect();
            (self.find)(&rest)
        })
    }
}

/// When the article was first published, as far as that is declared.
pub(super) fn published(declared: &Declared, page: &Page, evidence: &Evidence<'_>) -> Option<Ts> {
    let parse = |text: &str| date::parse(text);
    let ld = |text: &Option<String>| text.as_deref().and_then(parse);
    let times = || page.times.iter().filter(|time| !is_update(&time.name));
    let declares = |name: &str| name.contains("publ") || name.contains("entry-date");
    ld(&declared.ld.published)
        .or_else(|| declared.first_meta(PUBLISHED, parse))
        .or_else(|| ld(&declared.ld.created))
        .or_else(|| times().find(|time| declares(&time.name)).and_then(|time| parse(&time.value)))
        .or(evidence.published)
        .or_else(|| ld(&declared.ld.other_published))
        .or_else(|| times().find_map(|time| parse(&time.value)))
}

/// When it was last changed.
pub(super) fn updated(declared: &Declared, page: &Page) -> Option<Ts> {
    let shown = page.times.iter().find(|time| is_update(&time.name));
    (declared.ld.updated.as_deref().and_then(date::parse))
        .or_else(|| declared.first_meta(UPDATED, date::parse))
        .or_else(|| shown.and_then(|time| date::parse(&time.value)))
}

fn is_update(name: &str) -> bool {
    name.contains("modif") || name.contains("updat")
}
