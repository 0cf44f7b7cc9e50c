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
    let mut writer =
        Writer { tree: &tree, base, out: String::new(), prefix: Vec::new(), lists: Vec::new() };
    let root = tree.body();
    writer.walk(root);
    writer.out.trim().to_owned()
}

/// A list that is open: the number of its next item, if it counts.
type List = Option<u32>;

struct Writer<'a> {
    tree: &'a Tree,
    base: Option<Url>,
    out: String,
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
            local_name!("img") => self.image(id),
            local_name!("br") => self.line("  \n"),
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
            }
            local_name!("ul") => self.lists.push(None),
            local_name!("ol") => self.lists.push(Some(1)),
            local_name!("li") => self.item(),
            local_name!("strong") | local_name!("b") => self.out_mark("**"),
            local_name!("em") | local_name!("i") => self.out_mark("*"),
            local_name!("code") => self.out_mark("`"),
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
            local_name!("code") => self.end_mark("`"),
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
        let fresh =
            self.out.is_empty() || ["- ", ". ", "> "].iter().any(|end| self.out.ends_with(end));
        if !fresh {
            self.trim();
            let tight = !self.lists.is_empty() && mark.is_empty();
            if !tight {
                self.line("\n");
            }
            self.line("\n");
        }
        self.out.push_str(mark);
    }

    fn item(&mut self) {
        self.trim();
        if !self.out.is_empty() {
            let first = self.lists.len() == 1
                && !matches!(self.lists.last(), Some(Some(number)) if *number > 1)
                && !self.last_line().trim_start_matches(['>', ' ']).starts_with("- ");
            if first {
                self.line("\n");
            }
            self.line("\n");
        }
        match self.lists.last_mut() {
            Some(Some(number)) => {
                self.out.push_str(&format!("{number}. "));
                *number += 1;
                self.prefix.push("   ");
            }
            _ => {
                self.out.push_str("- ");
                self.prefix.push("  ");
            }
        }
    }

    fn last_line(&self) -> &str {
        self.out.rsplit('\n').next().unwrap_or_default()
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
        let at_start = |out: &str| out.is_empty() || out.ends_with([' ', '\n', '[', '*']);
        if text.starts_with(char::is_whitespace) && !at_start(&self.out) {
            self.out.push(' ');
        }
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            if self.last_line().trim_start_matches(['>', ' ']).is_empty() {
                self.guard(word);
            }
            for c in word.chars() {
                if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<') {
                    self.out.push('\\');
                }
                self.out.push(c);
            }
            if words.peek().is_some() || text.ends_with(char::is_whitespace) {
                self.out.push(' ');
            }
        }
    }

    /// A word at the start of a line that would make it a heading, an item or a quote.
    fn guard(&mut self, word: &str) {
        let number = word.trim_end_matches(['.', ')']);
        let counts =
            number != word && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        if matches!(word, "-" | "+" | ">" | "---" | "===") || word.starts_with('#') || counts {
            self.out.push('\\');
        }
    }

    fn out_mark(&mut self, mark: &str) {
        self.out.push_str(mark);
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
            let alt = alt.replace(['[', ']', '\n'], " ");
            self.start(&format!("![{}]({})", alt.trim(), in_parentheses(&address)));
            self.line("\n");
        }
    }

    fn code(&mut self, id: Id) {
        let text = self.tree.text_as_is(id);
        let fence = if text.contains("```") { "````" } else { "```" };
        self.start(fence);
        for line in text.trim_matches('\n').lines() {
            self.line("\n");
            self.out.push_str(line);
        }
        self.line("\n");
        self.out.push_str(fence);
    }

    fn table(&mut self, id: Id) {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut at = self.tree.following(id, id, true);
        while let Some(node) = at {
            let mut inside = true;
            match self.tree.name(node) {
                Some(name) if *name == local_name!("tr") => rows.push(Vec::new()),
                Some(name) if matches!(*name, local_name!("td") | local_name!("th")) => {
                    let cell = self.tree.text(node, 2_000, true).replace('|', "\\|");
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
    }
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
        assert_eq!(md("<p>1. no item"), "\\1. no item");
        assert_eq!(md("<p>a <strong></strong>b"), "a b");
        assert_eq!(md(""), "");
    }
}
