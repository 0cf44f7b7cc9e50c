//! What an address tells a spider by its spelling: an article, a page that lists others, or nothing
//! worth a request. Pure.
//!
//! An operator's patterns decide alone; without them the spelling does. A site can make addresses
//! without end, so those that look made up are refused: calendars, sessions, endless pages, paths that
//! turn in circles. Nothing here reads a page, and a wrong guess does no harm: what a page really is
//! shows when it is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::date::Ts;
use crate::url::Url;

/// Longer addresses are made by machines for machines.
const MAX_LEN: usize = 500;
/// More segments than any editor has sections.
const MAX_SEGMENTS: usize = 10;
/// More parameters are a search, not a page.
const MAX_PARAMETERS: usize = 3;
/// A segment that comes so often in one path is a link that is relative by mistake.
const REPEATS: usize = 3;
/// Nothing was published on the Web before.
const FIRST_YEAR: i32 = 1990;
/// A single segment that is shorter is a section, whatever it says.
const SHORT: usize = 20;
/// Words that make a headline.
const WORDS: usize = 4;
/// The most patterns of one set.
pub const MAX_PATTERNS: usize = 1_000;
/// The longest pattern, and all patterns of a set together, in bytes.
const MAX_PATTERN: usize = 1_000;
const MAX_PATTERN_BYTES: usize = 64 << 10;
/// The most that one compiled pattern may take, and all of a set together, in bytes.
const MAX_COMPILED: usize = 256 << 10;
const MAX_SET: usize = 2 << 20;
/// The most that one set may keep of what it learned while matching, in bytes, for each thread.
const MAX_LEARNED: usize = 1 << 20;
/// Parentheses in parentheses.
const MAX_NESTING: u32 = 50;
/// Sets that a cache keeps.
const MAX_SETS: usize = 64;

/// Files that are no pages.
const FILES: &str = "jpg jpeg png gif webp avif svg ico bmp tif tiff css js mjs json xml rss atom pdf \
    zip gz tgz bz2 xz rar 7z tar mp3 m4a ogg wav flac mp4 m4v webm avi mov mkv wmv doc docx xls xlsx \
    ppt pptx odt csv exe msi dmg apk iso jar swf woff woff2 ttf otf eot ics vcf epub mobi";
/// Where files are kept.
const ASSETS: [&str; 3] = ["/wp-content/uploads/", "/assets/", "/static/"];
/// Segments of pages that lead to no news.
const BARREN: &str = "login signin signup register search contact about privacy terms feed rss \
    sitemap admin wp-admin wp-login.php wp-json account cart checkout shop store products product \
    basket wishlist subscribe newsletter print";
/// Segments of pages that list others and are never articles.
const LISTS: &str = "tag tags category categories author authors page topic topics section sections \
    archive archives calendar";
/// Segments that articles stand under.
const CONTENT: &str = "article articles news story stories post posts blog blogs press-release \
    press-releases report reports review reviews opinion opinions feature features analysis \
    interview interviews artikel nachrichten actualite noticia noticias";
/// Parameters that show the same page in another way.
const VARIANTS: &str = "sort sortby sort_by order orderby order_by dir view display layout filter \
    print share replytocom format output per_page limit";
/// Parameters that name a visit and not a page.
const SESSIONS: &str = "sid phpsessid jsessionid sessionid session_id session sess cfid cftoken \
    aspsessionid zenid oscsid";
/// Parameters that number the pages of a list.
const PAGES: &str = "page paged pg pagenum page_no pageno seite pagina";
/// Parameters that name a day or a month.
const DATES: &str = "date day month year ym cal calendar from to since until";
/// Hosts that serve parts of other sites' pages, or take what is shared.
const NOISE: &str = "apps.apple.com itunes.apple.com play.google.com cloudfront.net \
    googleusercontent.com fbcdn.net twimg.com facebook.com twitter.com x.com linkedin.com \
    instagram.com pinterest.com wa.me whatsapp.com t.me telegram.me reddit.com tumblr.com \
    youtube.com youtu.be tiktok.com threads.net bsky.app getpocket.com addtoany.com";

/// What an address looks like, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// An article.
    Article(&'static str),
    /// A page that leads to others.
    Listing(&'static str),
    /// Nothing that is worth a request.
    Nothing(&'static str),
}

/// Expressions that tell a source's articles by their addresses.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Option<RegexSet>);

/// Why patterns cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// One of them is no expression, or too large.
    #[error("pattern `{pattern}`: {problem}")]
    One {
        /// As given.
        pattern: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// There are too many.
    #[error("{0} patterns are too many; use {MAX_PATTERNS} at most")]
    Count(usize),
    /// All of them together are too large.
    #[error("the patterns are too large together; use fewer or simpler ones")]
    Together,
}

impl Patterns {
    /// Compiles them, all in one set and under a budget.
    ///
    /// # Errors
    /// What is wrong with the first bad one, or with all of them.
    pub fn new(given: &[String]) -> Result<Self, PatternError> {
        if given.is_empty() {
            return Ok(Self(None));
        }
        if given.len() > MAX_PATTERNS {
            return Err(PatternError::Count(given.len()));
        }
        let one = |pattern: &str, problem: String| {
            let pattern = pattern.chars().take(200).collect();
            PatternError::One { pattern, problem }
        };
        if let Some(long) = given.iter().find(|pattern| pattern.len() > MAX_PATTERN) {
            let problem = format!("it is longer than {MAX_PATTERN} bytes");
            return Err(one(long, problem));
        }
        if given.iter().map(String::len).sum::<usize>() > MAX_PATTERN_BYTES {
            return Err(PatternError::Together);
        }
        if let Ok(set) = compile(given, MAX_SET) {
            return Ok(Self(Some(set)));
        }
        for pattern in given {
            if let Err(error) = compile(std::slice::from_ref(pattern), MAX_COMPILED) {
                return Err(one(pattern, problem(&error)));
            }
        }
        Err(PatternError::Together)
    }
}

/// Compiles a set. Addresses are ASCII: the small classes of ASCII do, unless a pattern names others.
fn compile(patterns: &[String], limit: usize) -> Result<RegexSet, regex::Error> {
    let build = |unicode| {
        RegexSetBuilder::new(patterns)
            .unicode(unicode)
            .size_limit(limit)
            .dfa_size_limit(MAX_LEARNED)
            .nest_limit(MAX_NESTING)
            .build()
    };
    match build(false) {
        Err(regex::Error::Syntax(_)) => build(true),
        built => built,
    }
}

/// What is wrong with an expression, in one line: the others draw where.
fn problem(error: &regex::Error) -> String {
    if let regex::Error::CompiledTooBig(_) = error {
        return "it is too large once compiled; use smaller repetitions".to_owned();
    }
    let told = error.to_string();
    let last = told.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// The patterns, compiled now or before: once, and not for each page and request.
///
/// # Errors
/// See [`Patterns::new`].
pub fn compiled(given: &[String]) -> Result<Arc<Patterns>, PatternError> {
    static CACHE: LazyLock<PatternCache> = LazyLock::new(PatternCache::default);
    CACHE.get(given)
}

/// Patterns that were compiled. Bounded.
#[derive(Debug, Default)]
struct PatternCache(Mutex<HashMap<Vec<String>, Arc<Patterns>>>);

impl PatternCache {
    fn get(&self, given: &[String]) -> Result<Arc<Patterns>, PatternError> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().get(given) {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(Patterns::new(given)?);
        let mut kept = kept();
        if kept.len() >= MAX_SETS {
            kept.clear();
        }
        kept.insert(given.to_vec(), Arc::clone(&made));
        Ok(made)
    }
}

/// What a spider is told about addresses.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The operator's word on what is an article.
    pub patterns: &'a Patterns,
    /// Lists are read up to this page.
    pub max_page: u32,
    /// Now: a day that is still far off has no news yet.
    pub at: Ts,
}

/// What an address looks like.
#[must_use]
pub fn judge(url: &Url, rules: &Rules<'_>) -> Looks {
    if let Some(set) = &rules.patterns.0
        && set.is_match(url.as_str().as_bytes())
    {
        return Looks::Article("an article_url_pattern");
    }
    let parts = Parts::of(url);
    if let Some(why) = parts.barren().or_else(|| parts.trap(url, rules)) {
        return Looks::Nothing(why);
    }
    if rules.patterns.0.is_some() {
        return Looks::Listing("no article_url_pattern");
    }
    match parts.article() {
        Some(why) => Looks::Article(why),
        None => Looks::Listing("navigation"),
    }
}

/// The address of the page and not of a visit to it: without session ids and fragment.
#[must_use]
pub fn tidied(url: &Url) -> Url {
    let mut tidy = url.clone();
    tidy.set_fragment(None);
    let lower = url.path().to_ascii_lowercase();
    if let Some(path) = lower.find(";jsessionid=").and_then(|at| url.path().get(..at)) {
        tidy.set_path(path);
    }
    if let Some(query) = url.query() {
        let kept = query.split('&').filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            !pair.is_empty() && !is_one(SESSIONS, &name.to_ascii_lowercase())
        });
        let kept = kept.collect::<Vec<_>>().join("&");
        tidy.set_query(Some(kept.as_str()).filter(|kept| !kept.is_empty()));
    }
    tidy
}

/// Whether a host is a site's own: itself, or its twin with or without `www`.
#[must_use]
pub fn is_own(host: &str, home: &str) -> bool {
    let bare = |host: &str| host.strip_prefix("www.").unwrap_or(host).to_owned();
    bare(host) == bare(home)
}

/// Whether a host is no publisher: it serves parts of others' pages, or takes what is shared.
#[must_use]
pub fn is_noise(host: &str) -> bool {
    let below = |noise: &str| {
        host.strip_suffix(noise).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    NOISE.split_whitespace().any(below)
}

/// Which page of a list an address is, when it says so.
#[must_use]
pub fn page_number(url: &Url) -> Option<u32> {
    Parts::of(url).page()
}

/// Whether an address names a day, month or year whose news it lists.
#[must_use]
pub fn is_dated_list(url: &Url) -> bool {
    let parts = Parts::of(url);
    parts.article().is_none() && !parts.years().is_empty()
}

/// The spelling that most of these addresses share, with how many have it: numbers are `{n}`, headlines
/// `{slug}`.
#[must_use]
pub fn shape<'a>(urls: impl IntoIterator<Item = &'a Url>) -> Option<(String, usize)> {
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    for url in urls {
        let segments = url.path_segments().into_iter().flatten().map(segment_shape);
        *shapes.entry(format!("/{}", segments.collect::<Vec<_>>().join("/"))).or_default() += 1;
    }
    shapes.into_iter().max_by_key(|(_, count)| *count)
}

fn segment_shape(segment: &str) -> String {
    let (stem, end) = segment
        .rsplit_once('.')
        .map_or((segment, ""), |(stem, _)| (stem, segment.get(stem.len()..).unwrap_or_default()));
    let is_number = !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        format!("{{n}}{end}")
    } else if stem.split(['-', '_']).count() >= WORDS || stem.len() >= SHORT {
        format!("{{slug}}{end}")
    } else {
        segment.to_owned()
    }
}

fn is_one(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i32> {
    let is_number = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn year(text: &str) -> Option<i32> {
    number(text, 4..=4).filter(|year| (1000..=9999).contains(year))
}

fn month(text: &str) -> Option<i32> {
    number(text, 1..=2).filter(|month| (1..=12).contains(month))
}

fn day(text: &str) -> Option<i32> {
    number(text, 1..=2).filter(|day| (1..=31).contains(day))
}

/// An address in lower case and in pieces.
struct Parts {
    path: String,
    segments: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Parts {
    fn of(url: &Url) -> Self {
        let path = url.path().to_ascii_lowercase();
        let segments = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
        let pairs = url.query_pairs();
        let parameters =
            pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_ascii_lowercase()));
        Self { segments: segments.collect(), parameters: parameters.collect(), path }
    }

    fn has(&self, words: &str) -> bool {
        self.segments.iter().any(|segment| is_one(words, segment))
    }

    /// Why no page with news is there.
    fn barren(&self) -> Option<&'static str> {
        let last = self.segments.last().map_or("", String::as_str);
        let is_file = last.rsplit_once('.').is_some_and(|(_, end)| is_one(FILES, end));
        if is_file {
            Some("a file, not a page")
        } else if ASSETS.iter().any(|prefix| self.path.contains(prefix)) {
            Some("where files are kept")
        } else if self.has(BARREN) {
            Some("not where news is")
        } else {
            None
        }
    }

    /// Why the address looks made up.
    fn trap(&self, url: &Url, rules: &Rules<'_>) -> Option<&'static str> {
        if url.as_str().len() > MAX_LEN {
            Some("too long")
        } else if self.segments.len() > MAX_SEGMENTS {
            Some("too many path segments")
        } else if self.parameters.len() > MAX_PARAMETERS {
            Some("too many parameters")
        } else if self.turns() {
            Some("path segments repeat")
        } else if self.parameters.iter().any(|(name, _)| is_one(VARIANTS, name)) {
            Some("another view of a page")
        } else if self.page().is_some_and(|page| page > rules.max_page) {
            Some("too far down a list")
        } else if self.years().into_iter().any(|(year, month)| is_far(year, month, rules.at)) {
            Some("a date without news")
        } else {
            None
        }
    }

    /// Whether the path goes in circles.
    fn turns(&self) -> bool {
        let often = |segment: &String| {
            self.segments.iter().filter(|other| *other == segment).count() >= REPEATS
        };
        let pairs = self.segments.windows(4).any(|four| match four {
            [a, b, c, d] => a == c && b == d,
            _ => false,
        });
        pairs || self.segments.iter().any(often)
    }

    fn page(&self) -> Option<u32> {
        let named = self.parameters.iter().find(|(name, _)| is_one(PAGES, name));
        let in_query = named.and_then(|(_, value)| value.parse().ok());
        in_query.or_else(|| {
            let mut pairs = self.segments.windows(2);
            let found = pairs.find_map(|pair| match pair {
                [name, number] if is_one(PAGES, name) => number.parse().ok(),
                _ => None,
            });
            found.or_else(|| self.segments.last()?.strip_prefix("page-")?.parse().ok())
        })
    }

    /// Years that are named, with their months.
    fn years(&self) -> Vec<(i32, Option<i32>)> {
        let in_path = self.segments.iter().enumerate().filter_map(|(at, segment)| {
            let mut dashed = segment.split('-');
            let (first, second) = (year(dashed.next()?)?, dashed.next().and_then(month));
            // A year with more than a date behind it is part of a headline.
            if segment.len() > 10 || (segment.len() > 4 && second.is_none()) {
                return None;
            }
            Some((first, second.or_else(|| month(self.segments.get(at + 1)?))))
        });
        let get = |name: &str| self.parameters.iter().find(|(known, _)| known == name);
        let in_query = self.parameters.iter().filter(|(name, _)| is_one(DATES, name));
        let in_query = in_query.filter_map(|(_, value)| {
            let mut dashed = value.split(['-', '/']);
            let (first, second) = (year(dashed.next()?)?, dashed.next().and_then(month));
            Some((first, second.or_else(|| month(&get("month")?.1))))
        });
        in_path.chain(in_query).collect()
    }

    /// By what it looks like an article.
    fn article(&self) -> Option<&'static str> {
        let [.., last] = self.segments.as_slice() else { return None };
        let is_short = self.segments.len() == 1 && last.len() < SHORT;
        if is_short || self.has(LISTS) {
            return None;
        }
        if self.dated_slug() {
            return Some("a date in its path");
        }
        let stem = last.rsplit_once('.').map_or(last.as_str(), |(stem, _)| stem);
        if stem.split(['-', '_']).filter(|word| !word.is_empty()).count() >= WORDS {
            return Some("a headline in its path");
        }
        let content = self.segments.iter().position(|segment| is_one(CONTENT, segment))?;
        let rest = self.segments.get(content + 1..).unwrap_or_default();
        let is_section = |one: &String| {
            one.len() < SHORT && !one.bytes().any(|byte| byte.is_ascii_digit() || byte == b'-')
        };
        let leads_on = match rest {
            [] => false,
            [one] => !is_section(one) && year(one).is_none(),
            [.., last] => !is_section(last) || last.contains('.'),
        };
        // A date alone is a list of that day.
        (leads_on && self.years().is_empty()).then_some("a content segment in its path")
    }

    /// `/2026/11[/16]/slug` or `/2026-11-16/slug`.
    fn dated_slug(&self) -> bool {
        let mut rests = (0..self.segments.len()).filter_map(|at| {
            let (first, rest) = self.segments.get(at..)?.split_first()?;
            let mut dashed = first.split('-');
            year(dashed.next()?)?;
            let rest = match (dashed.next(), rest) {
                (Some(second), rest) if month(second).is_some() => rest,
                (None, [second, rest @ ..]) if month(second).is_some() => rest,
                _ => return None,
            };
            Some(match rest {
                [third, slug @ ..] if day(third).is_some() => slug,
                slug => slug,
            })
        });
        rests.any(|slug| !slug.is_empty())
    }
}

/// Whether a month is before the Web or more than a month ahead.
fn is_far(year: i32, month: Option<i32>, at: Ts) -> bool {
    let today = at.day();
    let mut now = today.split('-').map(|part| part.parse().unwrap_or(0));
    let (this_year, this_month) = (now.next().unwrap_or(0), now.next().unwrap_or(0));
    let months = |year: i32, month: i32| year * 12 + month;
    year < FIRST_YEAR || months(year, month.unwrap_or(1)) > months(this_year, this_month) + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::url;

    fn now() -> Ts {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn looks(address: &str, patterns: &[&str]) -> Looks {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let patterns = Patterns::new(&patterns).unwrap();
        judge(
            &url::parse(address).unwrap(),
            &Rules { patterns: &patterns, max_page: 100, at: now() },
        )
    }

    #[test]
    fn most_addresses_give_the_shape() {
        let urls = ["/2026/11/16/storm-hits-the-coast", "/2026/11/15/a-quiet-day-at-sea", "/about"];
        let urls = urls.map(|path| url::parse(&format!("https://e.example{path}")).unwrap());
        assert_eq!(shape(&urls), Some(("/{n}/{n}/{n}/{slug}".to_owned(), 2)));
        let urls = ["/news/12.html", "/news/13.html"];
        let urls = urls.map(|path| url::parse(&format!("https://e.example{path}")).unwrap());
        assert_eq!(shape(&urls), Some(("/news/{n}.html".to_owned(), 2)));
        assert_eq!(shape(&[]), None);
    }

    #[test]
    fn the_spelling_tells_articles() {
        for path in [
            "/2026/11/16/storm",
            "/2026/11/storm-hits",
            "/world/2026/11/16/storm.html",
            "/2026-11-16/storm",
            "/world/storm-hits-the-coast-again",
            "/storm-hits-the-coast-again.html",
            "/news/12345",
            "/news/local/storm-in-town",
            "/blog/why-we-moved",
            "/article/8f3a21",
        ] {
            assert!(
                matches!(looks(&format!("https://e.example{path}"), &[]), Looks::Article(_)),
                "{path}"
            );
        }
    }

    #[test]
    fn the_spelling_tells_lists() {
        for path in [
            "/",
            "/world",
            "/world/europe",
            "/news",
            "/news/world",
            "/news/local/",
            "/a-b-c-d",
            "/tag/breaking-news-in-town",
            "/category/world",
            "/author/ann-b-c-d",
            "/world/page/2",
            "/world?page=2",
            "/2026/11",
            "/2026/11/16/",
            "/2026",
            "/archive/2026",
            "/news/2026",
        ] {
            assert!(
                matches!(looks(&format!("https://e.example{path}"), &[]), Looks::Listing(_)),
                "{path}"
            );
        }
    }

    #[test]
    fn what_leads_nowhere_or_has_no_end_is_left_alone() {
        for (path, why) in [
            ("/a/photo.JPG", "a file, not a page"),
            ("/wp-content/uploads/x", "where files are kept"),
            ("/login", "not where news is"),
            ("/search?q=x", "not where news is"),
            ("/shop/mugs", "not where news is"),
            ("/world/feed", "not where news is"),
            ("/a/b/a/b/", "path segments repeat"),
            ("/x/a/x/b/x", "path segments repeat"),
            ("/a/b/c/d/e/f/g/h/i/j/k", "too many path segments"),
            ("/world?a=1&b=2&c=3&d=4", "too many parameters"),
            ("/world?sort=asc", "another view of a page"),
            ("/world?page=101", "too far down a list"),
            ("/world/page/9999", "too far down a list"),
            ("/calendar/2027/02", "a date without news"),
            ("/calendar/1971/02", "a date without news"),
            ("/events?month=2031-05", "a date without news"),
            ("/events?year=2031&month=5", "a date without news"),
        ] {
            assert_eq!(
                looks(&format!("https://e.example{path}"), &[]),
                Looks::Nothing(why),
                "{path}"
            );
        }
        let long = format!("https://e.example/{}", "x".repeat(600));
        assert_eq!(looks(&long, &[]), Looks::Nothing("too long"));
        assert!(matches!(looks("https://e.example/calendar/2026/12", &[]), Looks::Listing(_)));
    }

    #[test]
    fn patterns_decide_alone() {
        let patterns = [r"/search/\d+$", r"/n/[a-z]+"];
        for (path, article) in [
            ("/search/12", true),
            ("/n/storm", true),
            ("/2026/11/16/storm-hits-the-coast", false),
            ("/world", false),
        ] {
            let looks = looks(&format!("https://e.example{path}"), &patterns);
            assert_eq!(matches!(looks, Looks::Article(_)), article, "{path}");
            assert_eq!(matches!(looks, Looks::Listing(_)), !article, "{path}");
        }
        assert!(Patterns::new(&["(".to_owned()]).is_err());
    }

    #[test]
    fn patterns_are_compiled_under_a_budget() {
        let many = |count: usize, pattern: &str| -> Vec<String> {
            (0..count).map(|n| format!("/s{n}/{pattern}")).collect()
        };
        for fine in [many(400, r"[\w-]+/\d{4}/.*\.html$"), many(400, r"(\d+|[a-z]{1,40})/[^/]+$")] {
            let patterns = Patterns::new(&fine).unwrap();
            let rules = Rules { patterns: &patterns, max_page: 100, at: now() };
            let found = url::parse("https://e.example/s7/a-b/2026/x.html").unwrap();
            assert_eq!(
                matches!(judge(&found, &rules), Looks::Article(_)),
                fine[0].contains("html")
            );
        }
        for (bad, says) in [
            (vec!["/a".to_owned(), "(a{1000}){1000}".to_owned()], "too large once compiled"),
            (vec!["(((a{100}){100}){100}){100}".to_owned()], "too large once compiled"),
            (vec![r"\w{500}".repeat(100)], "too large once compiled"),
            (many(300, r".{1,900}x"), "too large together"),
            (vec!["x".repeat(1_001)], "longer than 1000 bytes"),
            (many(1_001, "x"), "1001 patterns are too many"),
            (many(200, &"x".repeat(900)), "too large together"),
            (vec!["(".repeat(60) + &")".repeat(60)], "nest"),
            (vec!["/a".to_owned(), "[z-a]".to_owned()], "pattern `[z-a]`"),
        ] {
            let error = Patterns::new(&bad).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        assert!(Patterns::new(&[r"\p{Nonsense}".to_owned()]).is_err());
        assert!(Patterns::new(&["/[é]+/(?i)straße".to_owned()]).is_ok(), "beyond ASCII");
    }

    #[test]
    fn patterns_are_compiled_once() {
        let cache = PatternCache::default();
        let given = ["/a".to_owned()];
        let first = cache.get(&given).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.get(&given).unwrap()));
        for n in 0..200 {
            cache.get(&[format!("/{n}")]).unwrap();
        }
        assert!(cache.0.lock().unwrap().len() <= MAX_SETS);
    }

    #[test]
    fn sessions_are_no_part_of_an_address() {
        for (given, tidy) in [
            ("https://e.example/a?sid=9f&x=1#top", "https://e.example/a?x=1"),
            ("https://e.example/a?PHPSESSID=9f", "https://e.example/a"),
            ("https://e.example/a;jsessionid=9F?x=1", "https://e.example/a?x=1"),
            ("https://e.example/a?x=1", "https://e.example/a?x=1"),
        ] {
            assert_eq!(tidied(&url::parse(given).unwrap()).as_str(), tidy);
        }
    }

    #[test]
    fn a_site_has_a_twin_and_the_rest_is_outside() {
        assert!(is_own("www.e.example", "e.example") && is_own("e.example", "www.e.example"));
        assert!(!is_own("blog.e.example", "e.example") && !is_own("e.example.net", "e.example"));
        assert!(is_noise("d1.cloudfront.net") && is_noise("wa.me") && !is_noise("example.com"));
    }

    #[test]
    fn pages_of_lists_and_of_days_are_told() {
        let number =
            |path: &str| page_number(&url::parse(&format!("https://e.example{path}")).unwrap());
        assert_eq!(
            (number("/w?page=7"), number("/w/page/7/"), number("/w/page-7")),
            (Some(7), Some(7), Some(7))
        );
        assert_eq!((number("/w"), number("/w?p=7"), number("/page/x")), (None, None, None));
        let dated =
            |path: &str| is_dated_list(&url::parse(&format!("https://e.example{path}")).unwrap());
        assert!(dated("/2026/11") && dated("/archive/2026") && dated("/e?date=2026-11-16"));
        assert!(
            !dated("/2026/11/storm") && !dated("/world") && !dated("/2026-was-a-good-year-for-us")
        );
    }

    proptest! {
        #[test]
        fn whatever_the_address_a_tidy_one_stays_as_it_is(path in "[a-z0-9/;=&?.-]{0,80}") {
            if let Ok(url) = url::parse(&format!("https://e.example/{path}")) {
                let tidy = tidied(&url);
                prop_assert_eq!(tidied(&tidy), tidy.clone());
                let patterns = Patterns::default();
                let rules = Rules { patterns: &patterns, max_page: 100, at: now() };
                let looks = judge(&tidy, &rules);
                // What is a page of a list or of a day is never an article by its spelling.
                let listed = page_number(&tidy).is_some_and(|_| Parts::of(&tidy).has(PAGES));
                prop_assert!(!(listed && matches!(looks, Looks::Article(_))));
            }
        }
    }
}
