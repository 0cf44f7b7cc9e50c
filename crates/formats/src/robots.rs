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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    agents: Vec<Agent>,
    groups: Vec<Vec<Rule>>,
    sitemaps: Vec<String>,
    signals: Vec<Signal>,
}

/// A line about how content may be used, in the group that it stands in; before all groups it is
/// for everyone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signal {
    group: Option<usize>,
    /// The paths that it is about; `None` for all.
    pattern: Option<Pattern>,
    uses: String,
}

/// One `User-agent` line: whom it names, and which group it opens or joins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Agent {
    token: String,
    group: usize,
    delay: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allow: bool,
    pattern: Pattern,
}

impl Robots {
    /// Reads a file.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.get(..MAX_BYTES).unwrap_or(bytes);
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
        let mut groups: Vec<usize> = self.lines_for(agent).iter().map(|line| line.group).collect();
        groups.dedup();
        for group in groups {
            for rule in self.groups.get(group).into_iter().flatten() {
                let [disallow, allow] = &mut longest;
                let best = if rule.allow { allow } else { disallow };
                // Only a longer rule can change anything, so only that is matched.
                if Some(rule.pattern.len) > *best && rule.pattern.matches(&path) {
                    *best = Some(rule.pattern.len);
                }
            }
        }
        let [disallow, allow] = longest;
        allow >= disallow
    }

    /// The time to leave between two requests, when the file asks for one.
    #[must_use]
    pub fn crawl_delay(&self, agent: &str) -> Option<Duration> {
        self.lines_for(agent).into_iter().filter_map(|agent| agent.delay).max()
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
        let groups: Vec<usize> = self.lines_for(agent).iter().map(|line| line.group).collect();
        for signal in &self.signals {
            let for_us = signal.group.is_none_or(|group| groups.contains(&group));
            let about_it = signal.pattern.as_ref().is_none_or(|pattern| pattern.matches(&path));
            if for_us && about_it {
                rights.signal(&signal.uses);
            }
        }
        rights
    }

    /// Whether another file has the same rules, whatever else it says.
    #[must_use]
    pub fn same_rules(&self, other: &Self) -> bool {
        self.agents == other.agents && self.groups == other.groups
    }

    /// The sitemaps it names, as written and in their order.
    #[must_use]
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// All lines that name this agent, or else all that name everyone.
    fn lines_for(&self, agent: &str) -> Vec<&Agent> {
        let token = agent.split('/').next().unwrap_or(agent).trim();
        let named = |token: &str| {
            self.agents.iter().filter(|a| a.token.eq_ignore_ascii_case(token)).collect::<Vec<_>>()
        };
        let own = if token.is_empty() { Vec::new() } else { named(token) };
        if own.is_empty() { named("*") } else { own }
    }
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
                self.about(Some(Pattern::new(&escape(value))), "ai-train=no");
            }
            _ => {}
        }
    }

    /// `search=yes, ai-train=no`, with a path before it or without.
    fn signal(&mut self, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match text.split_once(char::is_whitespace).filter(|(first, _)| first.starts_with('/')) {
            Some((path, uses)) => self.about(Some(Pattern::new(&escape(path.as_bytes()))), uses),
            None => self.about(None, &text),
        }
    }

    fn about(&mut self, pattern: Option<Pattern>, uses: &str) {
        if self.robots.signals.len() < MAX_SIGNALS {
            let group = self.robots.groups.len().checked_sub(1);
            self.robots.signals.push(Signal { group, pattern, uses: uses.to_owned() });
        }
    }

    fn agent(&mut self, value: &[u8]) {
        if self.in_rules || self.robots.groups.is_empty() {
            self.robots.groups.push(Vec::new());
        }
        if self.in_rules || self.in_delay {
            self.delay_from = self.robots.agents.len();
        }
        (self.in_rules, self.in_delay) = (false, false);
        self.robots.agents.push(Agent {
            token: product_token(value),
            group: self.robots.groups.len() - 1,
            delay: None,
        });
    }

    /// Adds a rule to the group; before the first agent line there is none, and it is ignored.
    fn rule(&mut self, allow: bool, value: &[u8]) {
        let Some(group) = self.robots.groups.last_mut() else { return };
        self.in_rules = true;
        if value.is_empty() {
            return;
        }
        let text = escape(value);
        // Whoever may see a directory's index page may see the directory.
        let directory = text.rsplit_once('/').filter(|(_, page)| page.starts_with("index.htm"));
        if let (true, Some((directory, _))) = (allow, directory) {
            group.push(Rule { allow, pattern: Pattern::new(&format!("{directory}/$")) });
        }
        group.push(Rule { allow, pattern: Pattern::new(&text) });
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

/// A path pattern: literal pieces with anything between them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    pieces: Vec<String>,
    /// Whether the last piece must stand at the very end.
    anchored: bool,
    /// How specific it is: the length as written.
    len: usize,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let (body, anchored) = match text.strip_suffix('$') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let pieces = body.split('*').map(str::to_owned).collect();
        Self { pieces, anchored, len: text.len() }
    }

    /// Takes every piece at the first place it occurs, which is never worse than a later one; so
    /// the path is walked once.
    fn matches(&self, path: &str) -> bool {
        let Some((first, others)) = self.pieces.split_first() else { return true };
        let Some(mut rest) = path.strip_prefix(first.as_str()) else { return false };
        let (middle, last) = match others.split_last() {
            Some((last, middle)) => (middle, Some(last)),
            None => (others, None),
        };
        for piece in middle {
            let Some((_, after)) = rest.split_once(piece.as_str()) else { return false };
            rest = after;
        }
        match (last, self.anchored) {
            (None, anchored) => !anchored || rest.is_empty(),
            (Some(last), true) => rest.ends_with(last.as_str()),
            (Some(last), false) => rest.contains(last.as_str()),
        }
    }
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
            let agent = robots.agents.first().map_or("feedmill", |agent| &agent.token);
            prop_assert!(robots.allows(agent, "/robots.txt"));
            prop_assert!(robots.groups.is_empty() || robots.groups.len() <= robots.agents.len());
            prop_assert_eq!(robots.allows(agent, &path), robots.allows(agent, &path));
            prop_assert!(robots.crawl_delay(agent).is_none_or(|delay| delay <= MAX_DELAY));
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
            prop_assert_eq!(Pattern::new(&pattern).matches(&path), slow(pattern.as_bytes(), path.as_bytes()));
        }
    }
}
