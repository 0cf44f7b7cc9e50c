//! Clean HTML as Markdown: headings, lists, links, quotes, code, tables, pictures.
//!
//! Characters that Markdown would read as markup are escaped where they could be taken for it.

use html5ever::local_name;

use super::metadata::absolute;
use super::tree::{Data, Id, Tree};
use crate::url::{self, Url};

/// Writes HTML, such as that of an article, as Markdown; references are made absolute with `base`.
#[must_use]
pub fn markdown(html: &str, base: Option<&str>) -> String {
    let tree = Tree::piece(html);
    let base = base.and_then(|base| url::parse(base).ok());
    let mut writer = Writer {
        tree: &tree,
        base,
        out: String::new(),
        at: At::Block,
        prefix: Vec::new(),
        lists: Vec::new(),
    };
    let root = tree.body();
    writer.walk(root);
    writer.out.trim().to_owned()
}

/// A list that is open.
struct List {
    /// The number of its next item, if it counts.
    number: Option<u32>,
    /// Whether it has an item already.
    begun: bool,
}

/// Where the next character would stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Where a paragraph may start: at the beginning, or after the mark of an item or a quote.
    Block,
    /// At the start of a line within a paragraph.
    Line,
    /// Behind other text.
    Text,
}

struct Writer<'a> {
    tree: &'a Tree,
    base: Option<Url>,
    out: String,
    at: At,
    /// What every line starts with.
    prefix: Vec<&'static str>,
    lists: Vec<List>,
}

impl Writer<'_> {
    /// Walks with a stack of its own: depth is bounded by the tree alone.
    fn walk(&mut self, root: Id) {
        let mut at = root;
        loop {
            let inside = at == root || self.enter(at);
            if inside && let Some(child) = self.tree.first_child(at) {
                at = child;
                continue;
            }
            if inside && at != root {
                self.leave(at);
            }
            loop {
                if at == root {
                    return;
                }
                if let Some(next) = self.tree.next_sibling(at) {
                    at = next;
                    break;
                }
                let Some(parent) = self.tree.parent(at) else { return };
                at = parent;
                if at != root {
                    self.leave(at);
                }
            }
        }
    }

    fn enter(&mut self, id: Id) -> bool {
        let name = match self.tree.data(id) {
            Data::Text(text) => {
                self.text(text);
                return false;
            }
            Data::Element { name, .. } => &name.local,
            Data::Other => return false,
        };
        match *name {
            local_name!("script") | local_name!("style") => return false,
            local_name!("table") => {
                self.table(id);
                return false;
            }
            local_name!("pre") => {
                self.code(id);
                return false;
            }
            local_name!("code") => {
                self.span(id);
                return false;
            }
            local_name!("img") => self.image(id),
            local_name!("br") => {
                self.line("  \n");
                self.at = At::Line;
            }
            local_name!("hr") => self.start("---"),
            local_name!("h1") => self.start("# "),
            local_name!("h2") => self.start("## "),
            local_name!("h3") => self.start("### "),
            local_name!("h4") => self.start("#### "),
            local_name!("h5") => self.start("##### "),
            local_name!("h6") => self.start("###### "),
            local_name!("blockquote") => {
                self.start("");
                self.prefix.push("> ");
                self.out.push_str("> ");
                self.at = At::Block;
            }
            local_name!("ul") => self.lists.push(List { number: None, begun: false }),
            local_name!("ol") => self.lists.push(List { number: Some(1), begun: false }),
            local_name!("li") => self.item(),
            local_name!("strong") | local_name!("b") => self.out_mark("**"),
            local_name!("em") | local_name!("i") => self.out_mark("*"),
            local_name!("a") => self.out_mark("["),
            local_name!("p")
            | local_name!("dt")
            | local_name!("dd")
            | local_name!("figcaption") => {
                self.start("");
            }
            _ => {}
        }
        true
    }

    fn leave(&mut self, id: Id) {
        let Some(name) = self.tree.name(id) else { return };
        match *name {
            local_name!("blockquote") => {
                self.prefix.pop();
            }
            local_name!("li") => {
                self.prefix.pop();
            }
            local_name!("ul") | local_name!("ol") => {
                self.lists.pop();
            }
            local_name!("strong") | local_name!("b") => self.end_mark("**"),
            local_name!("em") | local_name!("i") => self.end_mark("*"),
            local_name!("a") => {
                let href = self.tree.attr(id, &local_name!("href"));
                match href.and_then(|href| absolute(self.base.as_ref(), href)) {
                    Some(address) => self.end_mark(&format!("]({})", in_parentheses(&address))),
                    None => self.end_mark("]"),
                }
            }
            _ => {}
        }
    }

    /// Starts a paragraph, a heading or the like: an empty line before it.
    fn start(&mut self, mark: &str) {
        if self.at != At::Block {
            self.trim();
            let tight = !self.lists.is_empty() && mark.is_empty();
            if !tight {
                self.line("\n");
            }
            self.line("\n");
        }
        self.out.push_str(mark);
        self.at = if mark.is_empty() { At::Block } else { At::Text };
    }

    fn item(&mut self) {
        self.trim();
        let nested = self.lists.len() > 1;
        let list = self.lists.last_mut();
        let begun = list.as_ref().is_none_or(|list| list.begun);
        let mut mark = "- ".to_owned();
        let mut prefix = "  ";
        if let Some(list) = list {
            list.begun = true;
            if let Some(number) = &mut list.number {
                mark = format!("{number}. ");
                *number += 1;
                prefix = "   ";
            }
        }
        if !self.out.is_empty() {
            if !begun && !nested {
                self.line("\n");
            }
            self.line("\n");
        }
        self.out.push_str(&mark);
        self.prefix.push(prefix);
        self.at = At::Block;
    }

    /// Ends a line, and starts the next one with what every line starts with.
    fn line(&mut self, end: &str) {
        self.out.push_str(end);
        for prefix in &self.prefix {
            self.out.push_str(prefix);
        }
    }

    fn trim(&mut self) {
        while self.out.ends_with([' ', '\n']) {
            self.out.pop();
        }
    }

    fn text(&mut self, text: &str) {
        if text.starts_with(char::is_whitespace) {
            self.space();
        }
        for (index, word) in text.split_whitespace().enumerate() {
            if index > 0 {
                self.out.push(' ');
            }
            let begins = self.at != At::Text;
            self.at = At::Text;
            let guarded = begins.then(|| guard(word)).flatten();
            escape(word, |place, _| guarded == Some(place), &mut self.out);
        }
        if text.ends_with(char::is_whitespace) {
            self.space();
        }
    }

    /// A space, where it would not be the first or the second.
    fn space(&mut self) {
        if self.at == At::Text && !self.out.ends_with([' ', '\n', '[']) {
            self.out.push(' ');
        }
    }

    fn out_mark(&mut self, mark: &str) {
        self.out.push_str(mark);
        self.at = At::Text;
    }

    /// Closes a mark: spaces go after it, and a mark around nothing vanishes.
    fn end_mark(&mut self, mark: &str) {
        let space = self.out.ends_with(' ');
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        let opening = if mark.starts_with(']') { "[" } else { mark };
        if self.out.ends_with(opening) && !mark.is_empty() {
            self.out.truncate(self.out.len() - opening.len());
        } else {
            self.out.push_str(mark);
        }
        if space {
            self.out.push(' ');
        }
    }

    fn image(&mut self, id: Id) {
        let source = self.tree.attr(id, &local_name!("src")).unwrap_or_default();
        if let Some(address) = absolute(self.base.as_ref(), source) {
            let alt = self.tree.attr(id, &local_name!("alt")).unwrap_or_default();
            let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
            let mut image = "![".to_owned();
            escape(&alt, |_, _| false, &mut image);
            self.start(&format!("{image}]({})", in_parentheses(&address)));
            self.line("\n");
        }
    }

    fn code(&mut self, id: Id) {
        let text = self.tree.text_as_is(id);
        let fence = "`".repeat(longest_run(&text).max(2) + 1);
        self.start(&fence);
        for line in text.trim_matches('\n').lines() {
            self.line("\n");
            self.out.push_str(line);
        }
        self.line("\n");
        self.out.push_str(&fence);
        // A fence ends its block only when nothing follows in its line, such as the end of emphasis.
        self.line("\n");
        self.at = At::Line;
    }

    /// Code within a line, where a backslash is itself and escapes nothing.
    fn span(&mut self, id: Id) {
        let text = self.tree.text_as_is(id);
        let code = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Two runs of backticks side by side would be read as one.
        if text.starts_with(char::is_whitespace) || self.out.ends_with('`') {
            self.space();
        }
        if !code.is_empty() {
            let fence = "`".repeat(longest_run(&code) + 1);
            let pad = if code.starts_with('`') || code.ends_with('`') { " " } else { "" };
            self.out_mark(&format!("{fence}{pad}{code}{pad}{fence}"));
        }
        if text.ends_with(char::is_whitespace) {
            self.space();
        }
    }

    fn table(&mut self, id: Id) {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut at = self.tree.following(id, id, true);
        while let Some(node) = at {
            let mut inside = true;
            match self.tree.name(node) {
                Some(name) if *name == local_name!("tr") => rows.push(Vec::new()),
                Some(name) if matches!(*name, local_name!("td") | local_name!("th")) => {
                    let text = self.tree.text(node, 2_000, true);
                    let mut cell = String::new();
                    escape(&text, |_, c| c == '|', &mut cell);
                    if let Some(row) = rows.last_mut() {
                        row.push(cell);
                    }
                    inside = false;
                }
                _ => {}
            }
            at = self.tree.following(node, id, inside);
        }
        let width = rows.iter().map(Vec::len).max().unwrap_or_default();
        if width == 0 {
            return;
        }
        self.start("");
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                self.line("\n");
            }
            let cells = row.iter().map(String::as_str).chain(std::iter::repeat("")).take(width);
            self.out.push_str(&format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
            if index == 0 {
                self.line("\n");
                self.out.push_str(&format!("|{}", " --- |".repeat(width)));
            }
        }
        self.at = At::Text;
    }
}

/// A text whose characters are no markup; `also` names more of them that would be.
fn escape(text: &str, also: impl Fn(usize, char) -> bool, out: &mut String) {
    for (at, c) in text.char_indices() {
        let is_entity = || text.get(at + 1..).is_some_and(|rest| rest.starts_with(is_named));
        let is_mark = matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<');
        if is_mark || also(at, c) || c == '&' && is_entity() {
            out.push('\\');
        }
        out.push(c);
    }
}

/// What stands behind the `&` of an entity.
fn is_named(c: char) -> bool {
    c == '#' || c.is_ascii_alphabetic()
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Where in a word that starts a line it has to be escaped, or it would make a heading, an item or
/// a quote of it.
fn guard(word: &str) -> Option<usize> {
    let number = word.trim_end_matches(['.', ')']);
    let counts = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if number != word && counts {
        return Some(number.len());
    }
    let marks = word.starts_with(['#', '>']) || matches!(word, "-" | "+" | "---" | "===");
    marks.then_some(0)
}

/// An address as it may stand in parentheses.
fn in_parentheses(address: &str) -> String {
    address.replace('(', "%28").replace(')', "%29").replace(' ', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn md(html: &str) -> String {
        markdown(html, Some("https://example.com/"))
    }

    #[test]
    fn blocks_and_marks() {
        assert_eq!(
            md(
                "<h2>Head</h2><p>One <a href=/b>two</a> and <strong>three </strong>four.</p><p>Five"
            ),
            "## Head\n\nOne [two](https://example.com/b) and **three** four.\n\nFive"
        );
        assert_eq!(
            md("<p>a</p><blockquote><p>b</p><p>c</p></blockquote><p>d"),
            "a\n\n> b\n> \n> c\n\nd"
        );
        assert_eq!(md("<p>a</p><ul><li>b</li><li>c</li></ul><p>d"), "a\n\n- b\n- c\n\nd");
        assert_eq!(md("<ol><li>a</li><li>b</li></ol>"), "1. a\n2. b");
        assert_eq!(md("<pre>x\n  y</pre>"), "```\nx\n  y\n```");
        assert_eq!(
            md("<table><tr><th>a<th>b<tr><td>c|d</table>"),
            "| a | b |\n| --- | --- |\n| c\\|d |  |"
        );
        assert_eq!(md("<img src=/i.jpg alt=x><p>y"), "![x](https://example.com/i.jpg)\n\ny");
    }

    #[test]
    fn what_looks_like_markup_is_escaped() {
        assert_eq!(md("<p># no *star* 1"), "\\# no \\*star\\* 1");
        assert_eq!(md("<p>1. no item"), "1\\. no item");
        assert_eq!(md("<p>a <strong></strong>b"), "a b");
        assert_eq!(md("<p>&amp;lt;b&amp;#62; R&amp;D, a &amp; b"), "\\&lt;b\\&#62; R\\&D, a & b");
        assert_eq!(
            md("<table><tr><td>&lt;script&gt;<td>a_b|c</table><p>d"),
            "| \\<script> | a\\_b\\|c |\n| --- | --- |\n\nd"
        );
        assert_eq!(md("<img src=/a alt='[b] <i>'>"), "![\\[b\\] \\<i>](https://example.com/a)");
        assert_eq!(md(""), "");
    }

    #[test]
    fn nothing_follows_a_fence_in_its_line() {
        let text = md("<p>So:</p><em><pre>&lt;script></pre></em><em><pre>x</pre></em> and more");
        let fences = text.lines().filter(|line| line.starts_with("```"));
        assert_eq!(fences.collect::<Vec<_>>(), ["```"; 4], "{text}");
        assert!(text.ends_with("and more"), "{text}");
    }

    #[test]
    fn code_is_written_as_it_is() {
        assert_eq!(md("<p>Call <code>a_b&lt;T> </code>now"), "Call `a_b<T>` now");
        assert_eq!(
            md("<p><code>`</code> or <code>a``b</code><code></code>"),
            "`` ` `` or ```a``b```"
        );
        assert_eq!(md("<pre>a\n````\nb</pre>"), "`````\na\n````\nb\n`````");
        assert_eq!(md("<p><code>a</code><code>b</code>"), "`a` `b`");
        assert_eq!(md("<pre>a</pre><p><code>b</code>"), "```\na\n```\n\n`b`");
    }

    #[test]
    fn a_sentence_that_ends_like_a_mark_ends_its_paragraph() {
        assert_eq!(
            md("<p>It is 7.</p>\n<p>Or 8 -</p>\n<p>b > </p> <p>c"),
            "It is 7.\n\nOr 8 -\n\nb >\n\nc"
        );
        assert_eq!(
            md("<p>a.</p>\n<ul>\n<li>b.</li>\n<li><p>c.</p>\n</li>\n</ul>\n<p>d."),
            "a.\n\n- b.\n- c.\n\nd."
        );
        assert_eq!(md("<p>a<br>- b"), "a  \n\\- b");
    }
}
