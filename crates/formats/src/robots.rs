//! robots.txt, as RFC 9309 reads it.
//!
//! No file is invalid: what cannot be read is skipped. Deciding takes time linear in the rules and
//! the path, whatever wildcards a file is full of.

use std::time::Duration;

use crate::rights::Rights;

/// What is read of a file; RFC 9309 asks for 500 KiB at least.
const MAX_BYTES: usize = 500 * 1_024;
/// What is read of a line: eight times the longest URL in practice, as the reference parser does.
const MAX_LINE: usize = 2_083 * 8 - 1;
/// A longer delay is taken as this one: a day between two requests is as good as a ban.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Lines about use that are kept: more are no statement.
const MAX_SIGNALS: usize = 200;

/// The rules of one robots.txt.
///
/// All texts stand in one buffer, so that a file full of rules takes little more memory than its own
/// size.
#[derive(Clone, Debug, Default)]
pub struct Robots {
    text: String,
    agents: Vec<Agent>,
    rules: Vec<Rule>,
    /// For each group the number of rules up to its end.
    groups: Vec<u32>,
    sitemaps: Vec<String>,
    signals: Vec<Signal>,
}

/// A piece of the buffer.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

/// A line about how content may be used, in the group that it stands in; before all groups it is
/// for everyone.
#[derive(Clone, Debug)]
struct Signal {
    group: Option<u32>,
    /// The paths that it is about; `None` for all.
    pattern: Option<Span>,
    uses: Span,
}

/// One `User-agent` line: whom it names, and which group it opens or joins.
#[derive(Clone, Copy, Debug)]
struct Agent {
    token: Span,
    group: u32,
    delay: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    allow: bool,
    /// The pattern as it is compared; the longer it is, the more specific.
    pattern: Span,
}

impl Robots {
    /// Reads a file.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let bytes = whole_lines(bytes);
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut reader = Reader::default();
        for line in bytes.split(|b| matches!(b, b'\n' | b'\r')) {
            reader.line(line.get(..MAX_LINE).unwrap_or(line));
        }
        reader.robots
    }

    /// Whether `agent` may fetch the path and query, given as they go over the wire.
    ///
    /// Of a full user agent only the product token before the first `/` counts.
    #[must_use]
    pub fn allows(&self, agent: &str, path_and_query: &str) -> bool {
        let path = normalise_path(path_and_query);
        if path == "/robots.txt" {
            return true;
        }
        let mut longest = [None, None];
        let mut groups: Vec<u32> = self.lines_for(agent).map(|line| line.group).collect();
        groups.dedup();
        for group in groups {
            for rule in self.rules_of(group) {
                let [disallow, allow] = &mut longest;
                let best = if rule.allow { allow } else { disallow };
                // Only a longer rule can change anything, so only that is matched.
                if Some(rule.pattern.len) > *best && matches(self.str(rule.pattern), &path) {
                    *best = Some(rule.pattern.len);
                }
            }
        }
        let [disallow, allow] = longest;
        allow >= disallow
    }

    /// The same rules without those that are not for `agent`, and without sitemaps: all that is to be
    /// kept to ask [`allows`](Self::allows) for this agent often.
    #[must_use]
    pub fn only_for(&self, agent: &str) -> Self {
        let mut only = Self::default();
        let mut last = None;
        for line in self.lines_for(agent) {
            if last != Some(line.group) {
                last = Some(line.group);
                for rule in self.rules_of(line.group) {
                    let pattern = only.add(self.str(rule.pattern));
                    only.rules.push(Rule { allow: rule.allow, pattern });
                }
                only.end_group();
            } else if line.delay.is_none() {
                continue;
            }
            let token = only.add(self.str(line.token));
            let group = only.last_group().unwrap_or_default();
            only.agents.push(Agent { token, group, delay: line.delay });
        }
        only.text.shrink_to_fit();
        only.agents.shrink_to_fit();
        only.rules.shrink_to_fit();
        only.groups.shrink_to_fit();
        only
    }

    /// How much memory it takes, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let sitemaps: usize = self.sitemaps.iter().map(String::capacity).sum();
        size_of::<Self>()
            + self.text.capacity()
            + self.agents.capacity() * size_of::<Agent>()
            + self.rules.capacity() * size_of::<Rule>()
            + self.groups.capacity() * size_of::<u32>()
            + self.signals.capacity() * size_of::<Signal>()
            + self.sitemaps.capacity() * size_of::<String>()
            + sitemaps
    }

    /// How many rules there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a file may say something about the use of content: where not,
    /// [`rights`](Self::rights) need not be asked.
    #[must_use]
    pub fn mentions_use(text: &str) -> bool {
        let begins = |line: &str, word: &str| {
            let start = line.trim_start().as_bytes().get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        let mut lines = text.split(['\n', '\r', '\u{feff}']);
        lines.any(|line| begins(line, "content-") || begins(line, "disallowai"))
    }

    /// The time to leave between two requests, when the file asks for one.
    #[must_use]
    pub fn crawl_delay(&self, agent: &str) -> Option<Duration> {
        self.lines_for(agent).filter_map(|agent| agent.delay).max()
    }

    /// What it says about the use of what is at that path: Content-Signal, Content-Usage and
    /// `DisallowAITraining` lines.
    #[must_use]
    pub fn rights(&self, agent: &str, path_and_query: &str) -> Rights {
        let mut rights = Rights::default();
        if self.signals.is_empty() {
            return rights;
        }
        let path = normalise_path(path_and_query);
        let mut groups: Vec<u32> = self.lines_for(agent).map(|line| line.group).collect();
        groups.dedup();
        for signal in &self.signals {
            let for_us = signal.group.is_none_or(|group| groups.binary_search(&group).is_ok());
            let about_it = |pattern: Span| matches(self.str(pattern), &path);
            if for_us && signal.pattern.is_none_or(about_it) {
                rights.signal(self.str(signal.uses));
            }
        }
        rights
    }

    /// Whether another file has the same rules, whatever else it says.
    #[must_use]
    pub fn same_rules(&self, other: &Self) -> bool {
        let agent = |robots: &Self, agent: &Agent| {
            (robots.str(agent.token).to_owned(), agent.group, agent.delay)
        };
        let agents = self.agents.iter().map(|one| agent(self, one));
        let rules = self.rules.iter().map(|rule| (rule.allow, self.str(rule.pattern)));
        self.groups == other.groups
            && agents.eq(other.agents.iter().map(|one| agent(other, one)))
            && rules.eq(other.rules.iter().map(|rule| (rule.allow, other.str(rule.pattern))))
    }

    /// The sitemaps it names, as written and in their order.
    #[must_use]
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// All lines that name this agent, or else all that name everyone.
    fn lines_for(&self, agent: &str) -> impl Iterator<Item = &Agent> {
        let token = agent.split('/').next().unwrap_or(agent).trim();
        let is = |agent: &Agent, token: &str| self.str(agent.token).eq_ignore_ascii_case(token);
        let is_named = !token.is_empty() && self.agents.iter().any(|agent| is(agent, token));
        let token = if is_named { token.to_owned() } else { "*".to_owned() };
        self.agents.iter().filter(move |agent| is(agent, &token))
    }

    fn rules_of(&self, group: u32) -> &[Rule] {
        let group = group as usize;
        let end = self.groups.get(group).map_or(0, |end| *end as usize);
        let before = group.checked_sub(1).and_then(|before| self.groups.get(before));
        let start = before.map_or(0, |start| *start as usize);
        self.rules.get(start..end).unwrap_or_default()
    }

    fn str(&self, span: Span) -> &str {
        let (start, len) = (span.start as usize, span.len as usize);
        self.text.get(start..start + len).unwrap_or_default()
    }

    /// Puts a text into the buffer. A file is cut long before 4 GB.
    fn add(&mut self, text: &str) -> Span {
        let size = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let span = Span { start: size(self.text.len()), len: size(text.len()) };
        self.text.push_str(text);
        span
    }

    fn last_group(&self) -> Option<u32> {
        u32::try_from(self.groups.len()).ok()?.checked_sub(1)
    }

    /// Opens a group that ends with the rules there are.
    fn end_group(&mut self) {
        self.groups.push(u32::try_from(self.rules.len()).unwrap_or(u32::MAX));
    }
}

/// As much of a file as is read, without a line that is cut: half a line may rule the opposite of the
/// whole.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let Some(read) = bytes.get(..MAX_BYTES).filter(|_| bytes.len() > MAX_BYTES) else {
        return bytes;
    };
    let end = read.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
    read.get(..end).unwrap_or_default()
}

/// The state between two lines.
#[derive(Default)]
struct Reader {
    robots: Robots,
    /// Whether a rule has been seen since the last agent line: then the next one opens a group.
    in_rules: bool,
    /// The first agent line that a delay applies to. A delay ends a run of agents for delays only:
    /// RFC 9309 knows no such line, so it must not end a group.
    delay_from: usize,
    in_delay: bool,
}

impl Reader {
    fn line(&mut self, line: &[u8]) {
        let line = line.split(|b| *b == b'#').next().unwrap_or_default();
        let Some((key, value)) = key_and_value(line) else { return };
        match key.to_ascii_lowercase().as_slice() {
            b"user-agent" | b"useragent" | b"user agent" => self.agent(value),
            b"allow" => self.rule(true, value),
            // The misspellings that the reference parser also accepts.
            b"disallow" | b"dissallow" | b"dissalow" | b"disalow" | b"diasllow" | b"disallaw" => {
                self.rule(false, value);
            }
            b"crawl-delay" | b"crawldelay" => self.delay(value),
            b"sitemap" | b"site-map" => {
                self.robots.sitemaps.push(String::from_utf8_lossy(value).into_owned());
            }
            b"content-signal" | b"content-usage" => self.signal(value),
            b"disallowaitraining" if !value.is_empty() => {
                self.about(Some(&escape(value)), "ai-train=no");
            }
            _ => {}
        }
    }

    /// `search=yes, ai-train=no`, with a path before it or without.
    fn signal(&mut self, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match text.split_once(char::is_whitespace).filter(|(first, _)| first.starts_with('/')) {
            Some((path, uses)) => self.about(Some(&escape(path.as_bytes())), uses),
            None => self.about(None, &text),
        }
    }

    fn about(&mut self, pattern: Option<&str>, uses: &str) {
        if self.robots.signals.len() < MAX_SIGNALS {
            let group = self.robots.last_group();
            let pattern = pattern.map(|pattern| self.robots.add(pattern));
            let uses = self.robots.add(uses);
            self.robots.signals.push(Signal { group, pattern, uses });
        }
    }

    fn agent(&mut self, value: &[u8]) {
        if self.in_rules || self.robots.groups.is_empty() {
            self.robots.end_group();
        }
        if self.in_rules || self.in_delay {
            self.delay_from = self.robots.agents.len();
        }
        (self.in_rules, self.in_delay) = (false, false);
        let token = self.robots.add(&product_token(value));
        let group = self.robots.last_group().unwrap_or_default();
        self.robots.agents.push(Agent { token, group, delay: None });
    }

    /// Adds a rule to the group; before the first agent line there is none, and it is ignored.
    fn rule(&mut self, allow: bool, value: &[u8]) {
        if self.robots.groups.is_empty() {
            return;
        }
        self.in_rules = true;
        if value.is_empty() {
            return;
        }
        let text = escape(value);
        // Whoever may see a directory's index page may see the directory.
        let directory = text.rsplit_once('/').filter(|(_, page)| page.starts_with("index.htm"));
        if let (true, Some((directory, _))) = (allow, directory) {
            self.add_rule(allow, &format!("{directory}/$"));
        }
        self.add_rule(allow, &text);
    }

    fn add_rule(&mut self, allow: bool, pattern: &str) {
        let pattern = self.robots.add(pattern);
        self.robots.rules.push(Rule { allow, pattern });
        let count = u32::try_from(self.robots.rules.len()).unwrap_or(u32::MAX);
        if let Some(end) = self.robots.groups.last_mut() {
            *end = count;
        }
    }

    /// Sets the delay of the agents just named; the first of several counts.
    fn delay(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.in_delay, true) {
            return;
        }
        let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse::<f64>().ok());
        let delay = seconds.filter(|s| *s >= 0.0).map(|s| s.min(MAX_DELAY.as_secs_f64()));
        for agent in self.robots.agents.iter_mut().skip(self.delay_from) {
            agent.delay = delay.map(Duration::from_secs_f64).or(agent.delay);
        }
    }
}

/// Splits `key: value`; a blank does where the colon was forgotten and there are just two words.
fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(colon) = line.iter().position(|b| *b == b':') {
        let (key, value) = line.split_at_checked(colon)?;
        return Some((key.trim_ascii(), value.get(1..)?.trim_ascii()));
    }
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match (words.next(), words.next(), words.next()) {
        (Some(key), Some(value), None) => Some((key, value)),
        _ => None,
    }
}

/// The product token of an agent line: `*`, or what comes before the first other character.
fn product_token(value: &[u8]) -> String {
    if value.first() == Some(&b'*') && value.get(1).is_none_or(u8::is_ascii_whitespace) {
        return "*".to_owned();
    }
    let is_token = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    value.iter().take_while(is_token).map(|b| char::from(b.to_ascii_lowercase())).collect()
}

/// A rule's value as ASCII: bytes beyond it become escapes, and escapes are in upper case.
fn escape(value: &[u8]) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii() {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    upper_escapes(&escaped)
}

/// A URL's path in the form that rules are compared with: no fragment, a leading slash.
fn normalise_path(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    if path.starts_with('/') { upper_escapes(path) } else { upper_escapes(&format!("/{path}")) }
}

fn upper_escapes(text: &str) -> String {
    let mut digits_left = 0;
    text.chars()
        .map(|c| {
            let in_escape = digits_left > 0 && c.is_ascii_hexdigit();
            digits_left = if c == '%' {
                2
            } else if in_escape {
                digits_left - 1
            } else {
                0
            };
            if in_escape { c.to_ascii_uppercase() } else { c }
        })
        .collect()
}

/// Whether a path matches a pattern: literal pieces with anything between them, and `$` where the
/// last must stand at the very end.
///
/// Takes every piece at the first place it occurs, which is never worse than a later one; so the path
/// is walked once.
fn matches(pattern: &str, path: &str) -> bool {
    let (body, anchored) = match pattern.strip_suffix('$') {
        Some(body) => (body, true),
        None => (pattern, false),
    };
    let Some((first, others)) = body.split_once('*') else {
        return if anchored { path == body } else { path.starts_with(body) };
    };
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let (middle, last) = match others.rsplit_once('*') {
        Some((middle, last)) => (Some(middle), last),
        None => (None, others),
    };
    for piece in middle.into_iter().flat_map(|middle| middle.split('*')) {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    if anchored { rest.ends_with(last) } else { rest.contains(last) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(robots: &str, agent: &str, path: &str) -> bool {
        Robots::parse(robots.as_bytes()).allows(agent, path)
    }

    #[test]
    fn the_longest_rule_wins_and_allow_wins_a_tie() {
        for (rules, path, allowed) in [
            ("disallow: /x/page\nallow: /x/", "/x/page", false),
            ("allow: /x/page\ndisallow: /x/", "/x/page", true),
            ("disallow: /a\nallow: /a", "/a", true),
            ("disallow:", "/a", true),
            ("disallow: /", "/robots.txt", true),
            ("allow: /page\ndisallow: /*.htm", "/page.htm", false),
            ("disallow: /*.php$", "/a.php", false),
            ("disallow: /*.php$", "/a.php?x", true),
            ("disallow: /a*b*c", "/a-c-b", true),
            ("disallow: /a*b*c", "/a-b-c-d", false),
            ("disallow: /a$", "/a", false),
            ("disallow: /a$", "/ab", true),
            ("disallow: *$", "/anything", false),
            ("disallow: /foo#bar", "/foo", false),
            ("disallow: /caf%c3%a9", "/caf%C3%A9", false),
            ("disallow: /caf\u{e9}", "/caf%c3%a9", false),
            ("disallow: /Case", "/case", true),
            ("disallow /", "/", false),
            ("disalow: /", "", false),
        ] {
            let robots = format!("user-agent: *\n{rules}\n");
            assert_eq!(allows(&robots, "feedmill", path), allowed, "{rules:?} {path}");
        }
    }

    #[test]
    fn groups_of_one_agent_are_merged_and_beat_those_of_everyone() {
        let robots = "\u{feff}allow: /nobody\r\nUser-Agent: FeedMill/2.0\rUSER-AGENT: other\n\
                      Disallow: /a\n\nuser-agent: *\ndisallow: /\n\nuser-agent: feedmill\ndisallow: /b";
        for (agent, path, allowed) in [
            ("Feedmill", "/a", false),
            ("feedmill/1.0 (+https://example.com)", "/b", false),
            ("feedmill", "/c", true),
            ("OTHER", "/b", true),
            ("feedmiller", "/c", false),
            ("", "/nobody", false),
        ] {
            assert_eq!(allows(robots, agent, path), allowed, "{agent} {path}");
        }
    }

    #[test]
    fn unknown_lines_do_not_end_a_group() {
        let robots = "user-agent: a\nsitemap: https://example.com/s.xml\nnoindex: /\ncrawl-delay: 5\n\
                      user-agent: b\ndisallow: /";
        assert!(!allows(robots, "a", "/x"));
        assert_eq!(Robots::parse(robots.as_bytes()).sitemaps(), ["https://example.com/s.xml"]);
    }

    #[test]
    fn a_delay_belongs_to_the_agents_just_named() {
        let robots = Robots::parse(
            b"user-agent: a\nuser-agent: b\ncrawl-delay: 2.5\nuser-agent: *\ncrawl-delay: 10\n\
              disallow: /x\nuser-agent: c\ndisallow: /y\nuser-agent: d\ncrawl-delay: 1e30\n\
              user-agent: e\ncrawl-delay: -3",
        );
        for (agent, delay) in [
            ("a", Some(2_500)),
            ("b", Some(2_500)),
            ("c", None),
            ("d", Some(86_400_000)),
            ("e", None),
            ("anyone", Some(10_000)),
        ] {
            assert_eq!(robots.crawl_delay(agent), delay.map(Duration::from_millis), "{agent}");
        }
    }

    #[test]
    fn hostile_wildcards_take_linear_time() {
        let pattern = "*a".repeat(2_000);
        let robots = format!("user-agent: *\ndisallow: /{pattern}b$\nallow: /{pattern}$\n");
        let path = format!("/{}", "a".repeat(50_000));
        assert!(allows(&robots, "feedmill", &path));
        assert!(allows(&robots, "feedmill", &format!("{path}c")));
    }

    #[test]
    fn an_agent_named_a_thousand_times_costs_one_look_at_its_rules() {
        let agents = "user-agent: *\n".repeat(15_000);
        let rules = "disallow: /*b\ncrawl-delay: 1\n".repeat(8_000);
        let robots = Robots::parse(format!("{agents}{rules}").as_bytes());
        assert!(robots.allows("feedmill", "/a"));
        assert_eq!(robots.crawl_delay("feedmill"), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_file_of_rules_takes_little_more_memory_than_its_size() {
        let rules: String = (0..100_000).map(|n| format!("Disallow: /{n:x}\n")).collect();
        let file = format!("User-agent: other\n{rules}");
        let robots = Robots::parse(file.as_bytes());
        assert!(robots.len() > 25_000);
        assert!(robots.memory() < 3 * MAX_BYTES, "{}", robots.memory());
        assert!(robots.only_for("feedmill").memory() < 1_000, "others' rules are not kept");
        let own = Robots::parse(format!("User-agent: *\n{rules}").as_bytes()).only_for("feedmill");
        assert!(own.memory() < 2 * MAX_BYTES, "{}", own.memory());
        assert!(!own.allows("feedmill", "/a1") && own.allows("feedmill", "/x"));
    }

    #[test]
    fn what_says_something_about_use_is_found_without_reading_all() {
        for (text, says) in [
            ("User-agent: *\n  Content-Signal: ai-train=no", true),
            ("\u{feff}CONTENT-USAGE: x", true),
            ("Disallow: /\rDisallowAITraining: /", true),
            ("User-agent: *\nDisallow: /content-usage", false),
            ("", false),
        ] {
            assert_eq!(Robots::mentions_use(text), says, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_robots_file_allows_everything() {
        for body in ["", "<!DOCTYPE html><html>404: not found</html>", "\0\u{1}\u{2}", ":::\n:"] {
            assert!(allows(body, "feedmill", "/x"), "{body:?}");
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_cap() {
        let mut robots = b"user-agent: *\n".to_vec();
        robots.resize(MAX_BYTES, b'\n');
        robots.extend_from_slice(b"disallow: /");
        assert!(Robots::parse(&robots).allows("feedmill", "/x"));
        // Half a line would rule more than the whole one.
        let mut robots = b"user-agent: *\n".to_vec();
        robots.resize(MAX_BYTES - 11, b'\n');
        robots.extend_from_slice(b"disallow: /private");
        assert!(Robots::parse(&robots).allows("feedmill", "/x"));
    }

    #[test]
    fn lines_about_use_belong_to_their_group_and_their_paths() {
        let robots = Robots::parse(
            b"Content-Signal: search=yes\n\
              User-agent: *\nContent-Signal: ai-train=no\nContent-Usage: /open/ train-ai=y\n\
              DisallowAITraining: /essays/*.html\nAllow: /\n\n\
              User-agent: otherbot\nContent-Signal: search=no\nDisallow: /\n",
        );
        let uses = |path: &str| {
            let rights = robots.rights("Feedmill", path);
            rights
                .uses
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(uses("/a"), ["ai-train=no", "search=yes"]);
        assert_eq!(uses("/open/a"), ["ai-train=no", "search=yes", "train-ai=y"]);
        assert_eq!(robots.rights("otherbot", "/a").uses["search"], "no");
        let free = Robots::parse(b"User-agent: *\nDisallowAITraining: /essays/\n");
        assert_eq!(free.rights("Feedmill", "/essays/a").uses["ai-train"], "no");
        assert!(free.rights("Feedmill", "/a").is_empty());
        assert!(free.allows("Feedmill", "/essays/a"), "a wish about use is no rule");
    }

    #[test]
    fn rules_are_compared_without_what_stands_around_them() {
        let read = |text: &str| Robots::parse(text.as_bytes());
        let one = read("# Monday\nUser-agent: *\nDisallow: /a\nSitemap: https://a/1");
        assert!(one.same_rules(&read("user-agent: *\ndisallow: /a\n# Tuesday")));
        assert!(!one.same_rules(&read("user-agent: *\ndisallow: /b")));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), path in "\\PC{0,30}") {
            let robots = Robots::parse(&bytes);
            let agent = robots.agents.first().map_or("feedmill", |agent| robots.str(agent.token));
            prop_assert!(robots.allows(agent, "/robots.txt"));
            prop_assert!(robots.groups.is_empty() || robots.groups.len() <= robots.agents.len());
            prop_assert_eq!(robots.allows(agent, &path), robots.allows(agent, &path));
            prop_assert!(robots.crawl_delay(agent).is_none_or(|delay| delay <= MAX_DELAY));
            let only = robots.only_for(agent);
            prop_assert_eq!(only.allows(agent, &path), robots.allows(agent, &path));
            prop_assert_eq!(only.crawl_delay(agent), robots.crawl_delay(agent));
            prop_assert!(only.len() <= robots.len());
        }

        #[test]
        fn a_pattern_matches_what_a_backtracking_matcher_matches(
            pattern in "/[ab*]{0,8}[$]?", path in "/[ab]{0,10}",
        ) {
            fn slow(pattern: &[u8], path: &[u8]) -> bool {
                match pattern {
                    [] => true,
                    b"$" => path.is_empty(),
                    [b'*', rest @ ..] => (0..=path.len()).any(|skip| slow(rest, &path[skip..])),
                    [c, rest @ ..] => path.first() == Some(c) && slow(rest, &path[1..]),
                }
            }
            prop_assert_eq!(matches(&pattern, &path), slow(pattern.as_bytes(), path.as_bytes()));
        }
    }
}
