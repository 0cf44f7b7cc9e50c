//! From the text of a selector to what is matched, or to the place where it goes wrong.

use html5ever::LocalName;

use super::{Combinator, Complex, Compound, Holds, Test};

/// The longest selector, in characters.
const MAX_CHARS: usize = 1_000;
/// The most elements that one alternative may name.
const MAX_COMPOUNDS: usize = 20;

/// What is wrong with a text that ends like this.
const LONE: &str = "a character is missing after the backslash";

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the selector `{text}` goes wrong at character {at}: {problem}")]
pub struct SelectorError {
    /// As given.
    pub text: String,
    /// Where, from 1.
    pub at: usize,
    /// What is wrong there, and what to write.
    pub problem: String,
}

impl SelectorError {
    /// The stable name of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_selector"
    }
}

/// Where and what.
type Wrong = (usize, String);

/// Alternatives, apart by commas.
pub(super) fn list(text: &str) -> Result<Vec<Complex>, SelectorError> {
    let mut parser = Parser { chars: text.chars().collect(), at: 0 };
    let wrong = |(at, problem)| SelectorError { text: text.to_owned(), at: at + 1, problem };
    if parser.chars.len() > MAX_CHARS {
        return Err(wrong((MAX_CHARS, format!("it has more than {MAX_CHARS} characters"))));
    }
    parser.list().map_err(wrong)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_it = self.peek() == Some(wanted);
        self.at += usize::from(is_it);
        is_it
    }

    /// Skips white space; whether there was any.
    fn space(&mut self) -> bool {
        let from = self.at;
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
        self.at > from
    }

    fn expect(&mut self, wanted: char) -> Result<(), Wrong> {
        if self.eat(wanted) { Ok(()) } else { Err((self.at, format!("`{wanted}` is missing"))) }
    }

    fn list(&mut self) -> Result<Vec<Complex>, Wrong> {
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.complex()?);
            match self.peek() {
                None => return Ok(alternatives),
                Some(',') => self.at += 1,
                Some(other) => return Err((self.at, format!("`{other}` is not expected here"))),
            }
        }
    }

    fn complex(&mut self) -> Result<Complex, Wrong> {
        self.space();
        let mut subject = self.compound()?;
        let mut context: Vec<(Combinator, Compound)> = Vec::new();
        while let Some(combinator) = self.combinator() {
            if context.len() + 1 >= MAX_COMPOUNDS {
                return Err((self.at, format!("it names more than {MAX_COMPOUNDS} elements")));
            }
            let outer = std::mem::replace(&mut subject, self.compound()?);
            context.insert(0, (combinator, outer));
        }
        Ok(Complex { subject, context })
    }

    /// What stands between two compounds; `None` at the end of the alternative.
    fn combinator(&mut self) -> Option<Combinator> {
        let spaced = self.space();
        let sign = match self.peek()? {
            '>' => Combinator::Child,
            '+' => Combinator::Next,
            '~' => Combinator::Later,
            ',' | ')' => return None,
            _ => return spaced.then_some(Combinator::Descendant),
        };
        self.at += 1;
        self.space();
        Some(sign)
    }

    fn compound(&mut self) -> Result<Compound, Wrong> {
        let from = self.at;
        let mut compound = Compound::default();
        if !self.eat('*') && self.peek().is_some_and(is_name) {
            compound.name = Some(LocalName::from(self.name("a name")?.to_ascii_lowercase()));
        }
        loop {
            let test = match self.peek() {
                Some('#') => {
                    self.at += 1;
                    Test::Id(self.name("an id")?)
                }
                Some('.') => {
                    self.at += 1;
                    Test::Class(self.name("a class")?)
                }
                Some('[') => self.attribute()?,
                Some(':') => self.pseudo()?,
                _ if self.at == from => return Err((from, self.missing())),
                _ => return Ok(compound),
            };
            compound.tests.push(test);
        }
    }

    fn missing(&self) -> String {
        match self.peek() {
            None => "an element is missing at the end".to_owned(),
            Some(other) => format!("an element is missing before `{other}`"),
        }
    }

    /// A name; a backslash takes the next character as it is.
    fn name(&mut self, what: &str) -> Result<String, Wrong> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.at += 1;
                let escaped = self.peek().ok_or_else(|| (self.at, LONE.to_owned()))?;
                name.push(escaped);
            } else if is_name(c) {
                name.push(c);
            } else {
                break;
            }
            self.at += 1;
        }
        if name.is_empty() { Err((self.at, format!("{what} is missing"))) } else { Ok(name) }
    }

    fn attribute(&mut self) -> Result<Test, Wrong> {
        self.at += 1;
        self.space();
        let name = self.name("the name of an attribute")?.to_ascii_lowercase();
        self.space();
        let holds = match self.peek() {
            Some(']') => Holds::Anything,
            Some('=') => Holds::Exactly,
            Some('~') => Holds::Word,
            Some('|') => Holds::Dashed,
            Some('^') => Holds::Start,
            Some('$') => Holds::End,
            Some('*') => Holds::Within,
            _ => return Err((self.at, "`=` or `]` is missing".to_owned())),
        };
        let (mut value, mut any_case) = (String::new(), false);
        if holds != Holds::Anything {
            self.at += usize::from(holds != Holds::Exactly);
            self.expect('=')?;
            self.space();
            value = self.value()?;
            self.space();
            any_case = self.eat('i') || self.eat('I');
            self.space();
        }
        self.expect(']')?;
        Ok(Test::Attribute { name: LocalName::from(name), holds, value, any_case })
    }

    /// A value in quotes, or a name.
    fn value(&mut self) -> Result<String, Wrong> {
        let Some(quote) = self.peek().filter(|c| matches!(c, '"' | '\'')) else {
            return self.name("the value of the attribute");
        };
        let from = self.at;
        self.at += 1;
        let mut value = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                _ if c == quote => return Ok(value),
                '\\' => {
                    value.push(self.peek().ok_or_else(|| (self.at, LONE.to_owned()))?);
                    self.at += 1;
                }
                _ => value.push(c),
            }
        }
        Err((from, "the quote is never closed".to_owned()))
    }

    fn pseudo(&mut self) -> Result<Test, Wrong> {
        let from = self.at;
        self.at += 1;
        let name = self.name("what follows `:`")?.to_ascii_lowercase();
        match name.as_str() {
            "first-child" => Ok(Test::NthChild { step: 0, offset: 1 }),
            "last-child" => Ok(Test::LastChild),
            "first-of-type" => Ok(Test::FirstOfType),
            "nth-child" => self.nth(),
            "not" => self.not(),
            _ => {
                let known = ":first-child, :last-child, :nth-child(…), :first-of-type and :not(…)";
                Err((from, format!("`:{name}` is not known, only {known}")))
            }
        }
    }

    fn nth(&mut self) -> Result<Test, Wrong> {
        self.expect('(')?;
        let from = self.at;
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| *c != ')') {
            text.push(c.to_ascii_lowercase());
            self.at += 1;
        }
        self.expect(')')?;
        text.retain(|c| !c.is_whitespace());
        let read = match text.as_str() {
            "odd" => Some((2, 1)),
            "even" => Some((2, 0)),
            _ => match text.split_once('n') {
                None => text.parse().ok().map(|offset| (0, offset)),
                Some((step, offset)) => {
                    let step = match step {
                        "" | "+" => Some(1),
                        "-" => Some(-1),
                        step => step.parse().ok(),
                    };
                    let offset = if offset.is_empty() { Some(0) } else { offset.parse().ok() };
                    step.zip(offset)
                }
            },
        };
        // `%` of the least number and -1 has no result.
        let fits = |(step, _): &(i32, i32)| *step > i32::MIN;
        let (step, offset) = read.filter(fits).ok_or_else(|| {
            (from, "write a number, odd, even, or something like 2n+1".to_owned())
        })?;
        Ok(Test::NthChild { step, offset })
    }

    fn not(&mut self) -> Result<Test, Wrong> {
        self.expect('(')?;
        let mut others = Vec::new();
        loop {
            self.space();
            let from = self.at;
            let other = self.compound()?;
            if other.tests.iter().any(|test| matches!(test, Test::Not(_))) {
                return Err((from, "`:not` in `:not` is not known".to_owned()));
            }
            others.push(other);
            self.space();
            if !self.eat(',') {
                break;
            }
        }
        self.expect(')')?;
        Ok(Test::Not(others))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '\\') || !c.is_ascii() && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::super::Selector;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, at, words) in [
            ("", 1, "an element is missing at the end"),
            ("div >", 6, "an element is missing at the end"),
            ("div, , p", 6, "an element is missing before `,`"),
            ("> p", 1, "an element is missing before `>`"),
            ("p:", 3, "what follows `:` is missing"),
            ("p.", 3, "a class is missing"),
            ("p#", 3, "an id is missing"),
            ("p[", 3, "the name of an attribute is missing"),
            ("p[a", 4, "`=` or `]` is missing"),
            ("p[a=b", 6, "`]` is missing"),
            ("p[a~b]", 5, "`=` is missing"),
            ("p[a='b]", 5, "the quote is never closed"),
            ("p:hover", 2, "`:hover` is not known, only :first-child"),
            ("p:nth-child(x)", 13, "write a number"),
            ("p:nth-child", 12, "`(` is missing"),
            ("p:not(.a", 9, "`)` is missing"),
            ("p:not(a b)", 9, "`)` is missing"),
            ("p) q", 2, "`)` is not expected here"),
            ("a!b", 2, "`!` is not expected here"),
        ] {
            let error = list(text).unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.problem.contains(words), "{error}");
        }
        assert_eq!(list(&"p".repeat(1_001)).unwrap_err().at, 1_001);
        assert!(list(&"p ".repeat(30)).unwrap_err().problem.contains("more than 20 elements"));
        assert!(list(".a\\:b, ul>li ,\n[data-x = \"y\"]").is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_with_a_place_in_it(text in "[a-z#.:\\[\\]=~|^$*()'\" >+,0-9n\\\\é-]{0,40}") {
            match text.parse::<Selector>() {
                Ok(selector) => prop_assert_eq!(selector.to_string(), text.trim()),
                Err(error) => prop_assert!(error.at <= text.chars().count() + 1),
            }
        }
    }
}
