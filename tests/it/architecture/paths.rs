//! Reads the paths that Rust code names, as far as rules about modules need it.
//!
//! Comments, literals and `#[cfg(test)]` items are left out, groups are written out: the code
//! `use a::{b, c::d};` names `a::b` and `a::c::d`.

/// A path, by its segments, and the line it begins on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Sign(char),
}

type Tokens = Vec<(usize, Token)>;

/// All paths of a file, in order.
pub(super) fn paths(code: &str) -> Vec<Path> {
    let tokens = without_tests(&tokens(code));
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let (line, token) = &tokens[at];
        let inside = at > 0 && matches!(tokens[at - 1].1, Token::Colons | Token::Sign('.'));
        if matches!(token, Token::Word(_)) && !inside {
            let from = found.len();
            at = path(&tokens, at, &[], &mut found);
            found[from..].iter_mut().for_each(|path: &mut Path| path.line = *line);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path that begins at `at`, with its groups; returns where it ends.
fn path(tokens: &Tokens, mut at: usize, stem: &[String], found: &mut Vec<Path>) -> usize {
    let mut segments = stem.to_vec();
    while let Some((line, Token::Word(word))) = tokens.get(at) {
        segments.push(word.clone());
        at += 1;
        if tokens.get(at).map(|(_, token)| token) != Some(&Token::Colons) {
            found.push(Path { line: *line, segments });
            return at;
        }
        at += 1;
        if tokens.get(at).map(|(_, token)| token) == Some(&Token::Sign('{')) {
            return group(tokens, at + 1, &segments, found);
        }
    }
    // `a::*`, `a::<T>`: what was named is the stem.
    let line = tokens.get(at.saturating_sub(1)).map_or(0, |(line, _)| *line);
    found.push(Path { line, segments });
    at
}

fn group(tokens: &Tokens, mut at: usize, stem: &[String], found: &mut Vec<Path>) -> usize {
    loop {
        match tokens.get(at).map(|(_, token)| token) {
            None => return at,
            Some(Token::Sign('}')) => return at + 1,
            Some(Token::Word(_)) => at = path(tokens, at, stem, found),
            Some(_) => at += 1,
        }
    }
}

/// Leaves out every item under `#[cfg(test)]`.
fn without_tests(tokens: &Tokens) -> Tokens {
    let word = |text: &str| Token::Word(text.into());
    let mark = [
        Token::Sign('#'),
        Token::Sign('['),
        word("cfg"),
        Token::Sign('('),
        word("test"),
        Token::Sign(')'),
        Token::Sign(']'),
    ];
    let mut kept = Tokens::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].iter().map(|(_, token)| token).take(mark.len()).eq(mark.iter()) {
            at = end_of_item(tokens, at + mark.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// An item ends with its first semicolon outside of brackets, or with its braces.
fn end_of_item(tokens: &Tokens, from: usize) -> usize {
    let mut depth = 0usize;
    for (at, (_, token)) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign(')' | ']') => depth = depth.saturating_sub(1),
            Token::Sign('}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn tokens(code: &str) -> Tokens {
    let chars: Vec<char> = code.chars().collect();
    let (mut found, mut at, mut line) = (Tokens::new(), 0, 1);
    while let Some(&first) = chars.get(at) {
        let end = end_of_token(&chars, at);
        let text: String = chars[at..end].iter().collect();
        match first {
            _ if text == "::" => found.push((line, Token::Colons)),
            '"' | '\'' | '/' if end > at + 1 => {} // A literal or a comment.
            _ if is_literal_prefix(&text) => {}
            _ if first.is_alphanumeric() || first == '_' => found.push((line, Token::Word(text))),
            _ if first.is_whitespace() => {}
            _ => found.push((line, Token::Sign(first))),
        }
        line += chars[at..end].iter().filter(|char| **char == '\n').count();
        at = end;
    }
    found
}

fn is_literal_prefix(text: &str) -> bool {
    text.ends_with(['"', '#']) && text.len() > 1
}

fn end_of_token(chars: &[char], at: usize) -> usize {
    let peek = |ahead: usize| chars.get(at + ahead).copied();
    match (chars[at], peek(1)) {
        ('/', Some('/')) => at + chars[at..].iter().take_while(|char| **char != '\n').count(),
        ('/', Some('*')) => end_of_comment(chars, at),
        (':', Some(':')) => at + 2,
        ('"', _) => end_of_string(chars, at + 1),
        ('\'', Some('\\')) => {
            at + 3 + chars[at + 3..].iter().take_while(|char| **char != '\'').count() + 1
        }
        ('\'', Some(_)) if peek(2) == Some('\'') => at + 3,
        (first, _) if first.is_alphanumeric() || first == '_' => {
            let word = chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
            end_of_prefixed(chars, at, at + word)
        }
        _ => at + 1,
    }
}

/// A word may be the prefix of a literal: `b"…"`, `r#"…"#`.
fn end_of_prefixed(chars: &[char], at: usize, end: usize) -> usize {
    let word: String = chars[at..end].iter().collect();
    match word.as_str() {
        "b" | "c" if chars.get(end) == Some(&'"') => end_of_string(chars, end + 1),
        "r" | "br" | "cr" => {
            let marks = chars[end..].iter().take_while(|char| **char == '#').count();
            if chars.get(end + marks) != Some(&'"') {
                return end;
            }
            let close: Vec<char> = std::iter::once('"').chain(vec!['#'; marks]).collect();
            let body = end + marks + 1;
            let length = chars[body..].windows(close.len()).position(|some| some == close);
            length.map_or(chars.len(), |length| body + length + close.len())
        }
        _ => end,
    }
}

fn end_of_string(chars: &[char], mut at: usize) -> usize {
    while let Some(char) = chars.get(at) {
        match char {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn end_of_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0usize;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

#[test]
fn groups_are_written_out() {
    let named = |code: &str| -> Vec<String> {
        paths(code).iter().map(|path| path.segments.join("::")).collect()
    };
    assert_eq!(
        named("use crate::{db::{Db, DbError}, model::Ts, clock}; pub use a::b as c;"),
        ["use", "crate::db::Db", "crate::db::DbError", "crate::model::Ts", "crate::clock"]
            .into_iter()
            .chain(["pub", "use", "a::b", "as", "c"])
            .collect::<Vec<_>>()
    );
    assert_eq!(
        named("x.collect::<Vec<u8>>() + std::fs::read"),
        ["x", "Vec", "u8", "std::fs::read"]
    );
}

#[test]
fn comments_literals_and_tests_name_nothing() {
    let code = r##"
        //! crate::a
        /* crate::b /* crate::c */ crate::d */
        const X: &str = "crate::e \" crate::f"; const Y: char = '"'; fn f<'a>(x: &'a str) {}
        const Z: &[u8] = br#"crate::g "quoted" crate::h"#; const W: char = '\'';
        #[cfg(test)]
        mod tests { use crate::i; fn f() { { crate::j } } }
        #[cfg(test)]
        use crate::k;
        use crate::real;
    "##;
    let crates: Vec<_> =
        paths(code).into_iter().filter(|path| path.segments[0] == "crate").collect();
    let wanted = Path { line: 10, segments: vec!["crate".into(), "real".into()] };
    assert_eq!(crates, [wanted]);
}
