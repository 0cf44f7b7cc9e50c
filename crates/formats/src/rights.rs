//! What a publisher says about the use of its pages: `X-Robots-Tag`, meta robots, Content-Signal,
//! Content-Usage, `TDMRep`, licence and copyright, in one value.
//!
//! Nothing is obeyed or judged here; it is written down as said. Where a publisher says two things,
//! the stricter one stays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::url;

/// Directives, uses and lengths beyond this are not kept: nobody means them.
const MOST: usize = 50;
/// The longest single directive or value, in bytes.
const LONGEST: usize = 500;

/// What is said about the use of a page. Empty when nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Directives for robots that name us or nobody: `noindex`, `noai`, `max-snippet:50`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub robots: Vec<String>,
    /// What may be done with the content: `ai-train` → `no`, `search` → `yes`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, String>,
    /// Whether text and data mining is reserved (`TDMRep`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdm_reservation: Option<bool>,
    /// Where the terms of mining are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tdm_policy: Option<String>,
    /// The address or name of the licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Whose the text is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copyright: Option<String>,
}

impl Rights {
    /// The response headers that say something.
    pub const HEADERS: [&'static str; 5] =
        ["x-robots-tag", "content-signal", "content-usage", "tdm-reservation", "tdm-policy"];

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this is said: a use with its value (`ai-train=no`), a directive (`noindex`), or that
    /// mining is reserved (`tdm`). A use that is refused is also told by its name and a no of
    /// another spelling.
    #[must_use]
    pub fn says(&self, what: &str) -> bool {
        match what.split_once('=') {
            Some((name, value)) => self.uses.get(name.trim()).is_some_and(|said| {
                let value = value.trim();
                said.eq_ignore_ascii_case(value) || (is_no(said) && is_no(value))
            }),
            None if what.eq_ignore_ascii_case("tdm") => self.tdm_reservation == Some(true),
            None => self.robots.iter().any(|said| said.eq_ignore_ascii_case(what)),
        }
    }

    /// Takes a response header in; other headers than the known ones say nothing.
    pub fn header(&mut self, name: &str, value: &str, agent: &str) {
        match name.to_ascii_lowercase().as_str() {
            "x-robots-tag" => self.robots_tag(value, agent),
            "content-signal" | "content-usage" => self.signal(value),
            "tdm-reservation" => self.reserve(value),
            "tdm-policy" => self.policy(value),
            _ => {}
        }
    }

    /// Takes a meta element in; names other than the known ones say nothing.
    pub fn meta(&mut self, name: &str, content: &str, agent: &str) {
        match name.to_ascii_lowercase().as_str() {
            "robots" => self.directives(content),
            "content-signal" | "content-usage" => self.signal(content),
            "tdm-reservation" => self.reserve(content),
            "tdm-policy" => self.policy(content),
            name if name.eq_ignore_ascii_case(agent) => self.directives(content),
            _ => {}
        }
    }

    /// Takes a list of uses in, such as `search=yes, ai-train=no`.
    pub fn signal(&mut self, list: &str) {
        for (name, value) in uses(list) {
            self.allow(name, value);
        }
    }

    /// Takes one use in; a no is never taken back.
    pub fn allow(&mut self, name: String, value: String) {
        let refused = self.uses.get(&name).is_some_and(|said| is_no(said));
        if !refused && (self.uses.len() < MOST || self.uses.contains_key(&name)) {
            self.uses.insert(name, value);
        }
    }

    /// Adds what somebody else says about the same page.
    pub fn and(&mut self, other: Self) {
        for directive in other.robots {
            self.directive(directive);
        }
        for (name, value) in other.uses {
            self.allow(name, value);
        }
        if let Some(reserved) = other.tdm_reservation {
            self.tdm_reservation = Some(self.tdm_reservation.unwrap_or_default() || reserved);
        }
        self.tdm_policy = self.tdm_policy.take().or(other.tdm_policy);
        self.license = self.license.take().or(other.license);
        self.copyright = self.copyright.take().or(other.copyright);
    }

    /// `noindex, nofollow`; what follows a robot's name is for that one: `otherbot: noindex`.
    fn robots_tag(&mut self, value: &str, agent: &str) {
        let mut for_us = true;
        for part in value.split(',') {
            let (robot, directive) = match part.split_once(':') {
                Some((first, rest)) if is_robot(first.trim()) => (Some(first.trim()), rest),
                _ => (None, part),
            };
            for_us = robot.map_or(for_us, |robot| robot.eq_ignore_ascii_case(agent));
            if for_us {
                self.directives(directive);
            }
        }
    }

    fn directives(&mut self, list: &str) {
        for directive in list.split(',') {
            self.directive(directive.trim().to_ascii_lowercase());
        }
    }

    fn directive(&mut self, directive: String) {
        let fits = !directive.is_empty() && directive.len() <= LONGEST;
        if fits && self.robots.len() < MOST && !self.robots.contains(&directive) {
            self.robots.push(directive);
        }
    }

    fn reserve(&mut self, value: &str) {
        let said = match value.trim() {
            "1" => true,
            "0" => false,
            _ => return,
        };
        self.tdm_reservation = Some(self.tdm_reservation.unwrap_or_default() || said);
    }

    fn policy(&mut self, value: &str) {
        let value = value.trim();
        let is_kept = !value.is_empty() && value.len() <= LONGEST;
        if is_kept && !url::is_other_scheme(value) {
            self.tdm_policy.get_or_insert_with(|| value.to_owned());
        }
    }
}

/// Whether what stands before a colon is the name of a robot: one word, and no directive that
/// carries a value. Times of day have colons too.
fn is_robot(name: &str) -> bool {
    const WITH_VALUE: [&str; 4] =
        ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];
    let word = !name.is_empty() && !name.contains(char::is_whitespace);
    word && !WITH_VALUE.iter().any(|directive| name.eq_ignore_ascii_case(directive))
}

fn is_no(value: &str) -> bool {
    matches!(value, "no" | "n" | "0" | "false")
}

/// The `name=value` pairs of a list, in lower case.
pub(crate) fn uses(list: &str) -> impl Iterator<Item = (String, String)> {
    list.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let clean = |text: &str| text.trim().trim_matches('"').to_ascii_lowercase();
        let (name, value) = (clean(name), clean(value));
        let fits = |text: &String| !text.is_empty() && text.len() <= LONGEST;
        (fits(&name) && fits(&value)).then_some((name, value))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(headers: &[(&str, &str)], metas: &[(&str, &str)]) -> Rights {
        let mut rights = Rights::default();
        for (name, value) in headers {
            rights.header(name, value, "Feedmill");
        }
        for (name, content) in metas {
            rights.meta(name, content, "Feedmill");
        }
        rights
    }

    #[test]
    fn directives_for_us_and_for_everyone_are_kept_and_those_for_others_are_not() {
        let rights = of(
            &[
                ("X-Robots-Tag", "noindex, max-snippet: 50"),
                ("x-robots-tag", "feedmill: noarchive"),
                ("x-robots-tag", "otherbot: nofollow"),
                ("x-robots-tag", "unavailable_after: 25 Jun 2030 15:00:00 GMT"),
            ],
            &[("robots", "NOINDEX,noai"), ("feedmill", "nosnippet"), ("otherbot", "none")],
        );
        let expected = [
            "noindex",
            "max-snippet: 50",
            "noarchive",
            "unavailable_after: 25 jun 2030 15:00:00 gmt",
            "noai",
            "nosnippet",
        ];
        assert_eq!(rights.robots, expected);
    }

    #[test]
    fn a_robots_name_is_only_about_what_follows_it() {
        let said = |value| of(&[("x-robots-tag", value)], &[]).robots;
        assert_eq!(said("noindex, otherbot: nofollow, noarchive"), ["noindex"]);
        assert_eq!(said("otherbot: nofollow, feedmill: noindex, noai"), ["noindex", "noai"]);
        let date = "noai, unavailable_after: Tue, 25 Jun 2030 15:00:00 GMT, noindex";
        assert!(said(date).contains(&"noindex".to_owned()));
    }

    #[test]
    fn uses_are_read_from_both_spellings_and_a_no_stays() {
        let rights = of(
            &[("Content-Signal", "search=yes, ai-train=no"), ("content-usage", "train-ai=n")],
            &[("content-signal", "ai-train=yes, ai-input=\"yes\"")],
        );
        let uses: Vec<_> = rights.uses.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let expected =
            [("ai-input", "yes"), ("ai-train", "no"), ("search", "yes"), ("train-ai", "n")];
        assert_eq!(uses, expected);
    }

    #[test]
    fn a_reservation_by_anybody_holds() {
        let policy = "https://example.com/tdm.json";
        let rights =
            of(&[("tdm-reservation", "1"), ("tdm-policy", policy)], &[("tdm-reservation", "0")]);
        assert_eq!(
            (rights.tdm_reservation, rights.tdm_policy.as_deref()),
            (Some(true), Some(policy))
        );
        assert_eq!(of(&[("tdm-reservation", "0")], &[]).tdm_reservation, Some(false));
        assert!(of(&[("tdm-reservation", "maybe")], &[("author", "noindex")]).is_empty());
    }

    #[test]
    fn a_policy_is_a_page_and_no_script() {
        for address in
            ["javascript:alert(1)", " JavaScript:x", "java\tscript:x", "data:,x", "file:/x"]
        {
            assert_eq!(
                of(&[("tdm-policy", address)], &[("tdm-policy", address)]),
                Rights::default()
            );
        }
        for address in ["https://example.com/tdm.json", "/tdm.json"] {
            assert_eq!(of(&[("tdm-policy", address)], &[]).tdm_policy.as_deref(), Some(address));
        }
        let after = of(&[("tdm-policy", "javascript:x"), ("tdm-policy", "/tdm.json")], &[]);
        assert_eq!(after.tdm_policy.as_deref(), Some("/tdm.json"));
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        assert_eq!(serde_json::to_string(&Rights::default()).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<Rights>("{}").unwrap(), Rights::default());
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_bounded(
            said in proptest::collection::vec((0usize..4, "[a-c=,:0-9 ]{0,600}"), 0..20)
        ) {
            let names = ["x-robots-tag", "content-signal", "tdm-reservation", "tdm-policy"];
            let mut rights = Rights::default();
            for (name, value) in &said {
                rights.header(names[*name], value, "Feedmill");
                rights.meta("robots", value, "Feedmill");
            }
            prop_assert!(rights.robots.len() <= MOST && rights.uses.len() <= MOST);
            prop_assert!(serde_json::to_string(&rights).unwrap().len() < 4 * MOST * 2 * LONGEST);
        }
    }
}
