//! CSS selectors, as far as they find an article's parts: names, classes, ids, attributes, a few
//! places among siblings, and all four combinators.
//!
//! A selector that does not parse is refused with the place where it goes wrong; one that was made is
//! always valid. In a list the first alternative that matches anything wins. Matching has a budget of
//! steps, because the page is not ours: when that is used up, nothing matches any more.

mod parse;

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

use html5ever::{LocalName, local_name};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::tree::{Data, Id, Tree};

pub use parse::SelectorError;

/// Elements that may be looked at for all selectors of a page.
const STEPS: u32 = 2_000_000;

/// One or more alternatives, as they were written and as they are matched.
#[derive(Clone, Debug)]
pub struct Selector {
    text: String,
    alternatives: Vec<Complex>,
}

/// Compounds from right to left, each with how it relates to the one before.
#[derive(Clone, Debug, PartialEq)]
struct Complex {
    subject: Compound,
    context: Vec<(Combinator, Compound)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combinator {
    Descendant,
    Child,
    Next,
    Later,
}

/// What one element must be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Compound {
    name: Option<LocalName>,
    tests: Vec<Test>,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Id(String),
    Class(String),
    Attribute {
        name: LocalName,
        holds: Holds,
        value: String,
        any_case: bool,
    },
    /// The `step`n + `offset`th child.
    NthChild {
        step: i32,
        offset: i32,
    },
    LastChild,
    FirstOfType,
    Not(Vec<Compound>),
}

/// How an attribute must hold a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Anything,
    Exactly,
    Word,
    Dashed,
    Start,
    End,
    Within,
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let text = text.trim().to_owned();
        Ok(Self { alternatives: parse::list(&text)?, text })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Selector {}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Finds elements in one page.
#[derive(Debug)]
pub(super) struct Finder<'a> {
    tree: &'a Tree,
    steps: Cell<u32>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, steps: Cell::new(STEPS) }
    }

    /// What the first alternative with a match finds inside `roots`, in the order of the document.
    /// An element inside of another that was found is part of it.
    pub(super) fn find(&self, selector: &Selector, roots: &[Id]) -> Vec<Id> {
        let matches = selector.alternatives.iter().map(|complex| self.all(complex, roots));
        matches.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// What any alternative finds.
    pub(super) fn find_any(&self, selector: &Selector, roots: &[Id]) -> Vec<Id> {
        selector.alternatives.iter().flat_map(|complex| self.all(complex, roots)).collect()
    }

    fn all(&self, complex: &Complex, roots: &[Id]) -> Vec<Id> {
        let mut found = Vec::new();
        for root in roots {
            let mut at = Some(*root);
            while let Some(id) = at {
                let is_one = self.is_match(complex, id);
                if is_one {
                    found.push(id);
                }
                at = self.tree.following(id, *root, !is_one);
            }
        }
        found
    }

    /// Counts one step; whether it may be made.
    fn step(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }

    fn is_match(&self, complex: &Complex, id: Id) -> bool {
        self.fits(&complex.subject, id) && self.stands_in(&complex.context, id)
    }

    /// Whether the elements around or before one are as they must be.
    fn stands_in(&self, context: &[(Combinator, Compound)], id: Id) -> bool {
        let Some(((combinator, compound), rest)) = context.split_first() else { return true };
        let fits = |id: Id| self.fits(compound, id) && self.stands_in(rest, id);
        let before = |id: &Id| self.element_before(*id);
        match combinator {
            Combinator::Child => self.tree.parent(id).is_some_and(fits),
            Combinator::Next => before(&id).is_some_and(fits),
            Combinator::Descendant => {
                let mut around =
                    std::iter::successors(self.tree.parent(id), |id| self.tree.parent(*id));
                around.any(fits)
            }
            Combinator::Later => std::iter::successors(before(&id), before).any(fits),
        }
    }

    fn element_before(&self, id: Id) -> Option<Id> {
        let before = |id: &Id| self.tree.previous_sibling(*id).filter(|_| self.step());
        std::iter::successors(before(&id), before).find(|id| self.tree.name(*id).is_some())
    }

    fn fits(&self, compound: &Compound, id: Id) -> bool {
        let Some(name) = self.tree.name(id).filter(|_| self.step()) else { return false };
        compound.name.as_ref().is_none_or(|wanted| wanted == name)
            && compound.tests.iter().all(|test| self.passes(test, id, name))
    }

    fn passes(&self, test: &Test, id: Id, name: &LocalName) -> bool {
        let get = |name: &LocalName| self.tree.attr(id, name);
        match test {
            Test::Id(wanted) => get(&local_name!("id")) == Some(wanted),
            Test::Class(wanted) => get(&local_name!("class"))
                .is_some_and(|list| list.split_ascii_whitespace().any(|class| class == wanted)),
            Test::Attribute { name, holds, value, any_case } => {
                get(name).is_some_and(|own| holds.test(own, value, *any_case))
            }
            Test::NthChild { step, offset } => self.is_nth(id, *step, *offset),
            Test::LastChild => {
                let next = |id: &Id| self.tree.next_sibling(*id).filter(|_| self.step());
                !std::iter::successors(next(&id), next)
                    .any(|id| matches!(self.tree.data(id), Data::Element { .. }))
            }
            Test::FirstOfType => {
                let before = |id: &Id| self.element_before(*id);
                !std::iter::successors(before(&id), before)
                    .any(|id| self.tree.name(id) == Some(name))
            }
            Test::Not(others) => !others.iter().any(|other| self.fits(other, id)),
        }
    }

    fn is_nth(&self, id: Id, step: i32, offset: i32) -> bool {
        let before = |id: &Id| self.element_before(*id);
        let earlier = std::iter::successors(before(&id), before);
        // Without steps there is one right place, and no need to look further.
        let most = if step == 0 { usize::try_from(offset).unwrap_or(0) } else { usize::MAX };
        let place = i32::try_from(earlier.take(most).count()).unwrap_or(i32::MAX);
        let rest = place.saturating_add(1).saturating_sub(offset);
        if step == 0 { rest == 0 } else { rest % step == 0 && rest / step >= 0 }
    }
}

impl Holds {
    fn test(self, own: &str, wanted: &str, any_case: bool) -> bool {
        if any_case {
            return self.test(&own.to_ascii_lowercase(), &wanted.to_ascii_lowercase(), false);
        }
        let is_given = !wanted.is_empty();
        match self {
            Self::Anything => true,
            Self::Exactly => own == wanted,
            Self::Word => own.split_ascii_whitespace().any(|word| word == wanted),
            Self::Dashed => own
                .strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
            Self::Start => is_given && own.starts_with(wanted),
            Self::End => is_given && own.ends_with(wanted),
            Self::Within => is_given && own.contains(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a selector finds, by the ids of the elements.
    fn found(html: &str, selector: &str) -> String {
        let tree = Tree::read(html).unwrap();
        let selector: Selector = selector.parse().unwrap();
        let found = Finder::new(&tree).find(&selector, &[0]);
        let ids = found.iter().map(|id| tree.attr(*id, &local_name!("id")).unwrap_or("-"));
        ids.collect::<Vec<_>>().join(" ")
    }

    const PAGE: &str = "<body><article id=a class='story big' data-kind=News><h1 id=h>T</h1>\
        <div id=d lang=en-GB><p id=p1>1</p> text <p id=p2 class=lead>2</p><p id=p3>3</p>\
        <span id=s>4</span></div></article><aside id=x class=story><p id=p4>5</p></aside>";

    #[test]
    fn elements_are_found() {
        for (selector, ids) in [
            ("p", "p1 p2 p3 p4"),
            ("P.lead", "p2"),
            ("#d", "d"),
            ("article p", "p1 p2 p3"),
            ("article > p", ""),
            ("article > div > p", "p1 p2 p3"),
            ("body article p", "p1 p2 p3"),
            (".story.big", "a"),
            ("*.story", "a x"),
            ("[data-kind]", "a"),
            ("[data-kind=news]", ""),
            ("[data-kind='news' i]", "a"),
            ("[class~=big]", "a"),
            ("[lang|=en]", "d"),
            ("[data-kind^=Ne][data-kind$=\"ws\"][data-kind*=ew]", "a"),
            ("h1 + div", "d"),
            ("p + p", "p2 p3"),
            ("p ~ span", "s"),
            ("p:first-child", "p1 p4"),
            ("span:last-child", "s"),
            ("p:nth-child(2)", "p2"),
            ("p:nth-child(odd)", "p1 p3 p4"),
            ("p:nth-child(-n+2)", "p1 p2 p4"),
            ("span:first-of-type", "s"),
            ("p:not(.lead, :first-child)", "p3"),
            (".none, aside, article", "x"),
            (".none , .story", "a x"),
            ("main", ""),
        ] {
            assert_eq!(found(PAGE, selector), ids, "{selector}");
        }
    }

    #[test]
    fn what_is_inside_of_a_match_is_part_of_it() {
        assert_eq!(found("<div id=a><div id=b></div></div><div id=c></div>", "div"), "a c");
    }

    #[test]
    fn a_page_cannot_make_matching_endless() {
        let wide = format!("<body>{}", "<p>".repeat(20_000));
        let deep = format!("<body>{}", "<div>".repeat(1_000));
        for (html, selector) in [
            (&wide, "i ~ p ~ p"),
            (&wide, "p:nth-child(30000n)"),
            (&deep, "p div > div div > div div div"),
        ] {
            let tree = Tree::read(html).unwrap();
            let finder = Finder::new(&tree);
            assert!(finder.find(&selector.parse().unwrap(), &[0]).is_empty(), "{selector}");
            assert_eq!(finder.steps.get(), 0, "{selector} goes as far as it may");
        }
    }

    #[test]
    fn a_selector_is_kept_as_it_was_written() {
        let selector: Selector = " article  >p,  .x ".parse().unwrap();
        let json = serde_json::to_string(&selector).unwrap();
        assert_eq!(json, r#""article  >p,  .x""#);
        assert_eq!(serde_json::from_str::<Selector>(&json).unwrap(), selector);
        let wrong = serde_json::from_str::<Selector>(r#""a >""#).unwrap_err().to_string();
        assert!(wrong.contains("character 4"), "{wrong}");
    }
}
