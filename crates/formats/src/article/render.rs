//! The chosen blocks as clean HTML: a few harmless elements, absolute addresses, nothing else.
//!
//! Every element and attribute is written here by name; nothing of the page's markup is passed on,
//! so that no script, style or handler can be. Elements without text of the article vanish.

use std::collections::HashSet;

use html5ever::local_name;

use super::metadata::{absolute, is_picture};
use super::page::{Block, Image, Page};
use super::tags::Tag;
use super::tree::{Id, Tree};
use crate::room::Room;
use crate::url::Url;

/// A cell with more bytes than this is no figure but prose.
const MAX_CELL: usize = 300;

/// An open element: where it stands in the tree, or the block that it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Tree(Id),
    Made(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    place: Place,
    name: &'static str,
    href: Option<String>,
}

/// The text of the chosen blocks, one for each paragraph; cells of a row are one.
pub(super) fn paragraphs(page: &Page, tree: &Tree, chosen: &[usize]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut last = None;
    for block in chosen.iter().filter_map(|index| page.blocks.get(*index)) {
        // Cells with prose lay out a page; their blocks are paragraphs.
        let is_cell = page.tag_of(block) == Tag::Td && page.text(block).len() < MAX_CELL;
        let row = page.node_of(block).filter(|_| is_cell).map(|node| node.parent);
        // What stands in one cell is paragraphs of their own, too.
        let goes_on = last.is_some_and(|(last_row, cell)| last_row == row && cell != block.node);
        let text = match page.tag_of(block) {
            Tag::Pre => preformatted(page, tree, block),
            _ => page.text(block).to_owned(),
        };
        match out.last_mut() {
            Some(line) if row.is_some() && goes_on => {
                line.push_str(" | ");
                line.push_str(&text);
            }
            _ => out.push(text),
        }
        last = Some((row, block.node));
    }
    out
}

/// The text of a block with its lines as they are.
fn preformatted(page: &Page, tree: &Tree, block: &Block) -> String {
    let runs = page.runs(block).iter().map(|id| tree.raw_text(*id));
    let text: String = runs.collect();
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// The chosen blocks, and the pictures between them, as HTML.
pub(super) fn html(page: &Page, tree: &Tree, chosen: &[usize], base: Option<&Url>) -> String {
    let layout = layout_tables(page, tree, chosen);
    let (out, open, room) = (String::new(), Vec::new(), Room::of(0));
    let mut writer = Writer { tree, base, layout, out, open, room };
    let taken: HashSet<usize> = chosen.iter().copied().collect();
    let near = |at: usize| {
        (at.saturating_sub(2)..at).any(|block| taken.contains(&block))
            && (at..at + 3).any(|block| taken.contains(&block))
    };
    let mut images = page.images.iter().filter(|image| near(image.block)).peekable();
    for index in chosen {
        while let Some(image) = images.next_if(|image| image.block <= *index) {
            writer.image(image);
        }
        if let Some(block) = page.blocks.get(*index) {
            writer.block(*index, page, block);
        }
    }
    writer.close_to(0);
    writer.out
}

/// Tables that lay out the page: some cell of theirs holds several blocks, or prose.
fn layout_tables(page: &Page, tree: &Tree, chosen: &[usize]) -> HashSet<Id> {
    let (mut seen, mut layout) = (HashSet::new(), HashSet::new());
    for block in chosen.iter().filter_map(|index| page.blocks.get(*index)) {
        let Some(run) = page.runs(block).first() else { continue };
        let around = std::iter::successors(tree.parent(*run), |id| tree.parent(*id));
        for cell in around.filter(|id| is_cell(tree, *id)) {
            if !seen.insert(cell) || page.text(block).len() >= MAX_CELL {
                layout.extend(table_of(tree, cell));
            }
        }
    }
    layout
}

fn is_cell(tree: &Tree, id: Id) -> bool {
    matches!(tree.name(id), Some(&local_name!("td") | &local_name!("th")))
}

/// The table that an element stands in, or is.
fn table_of(tree: &Tree, id: Id) -> Option<Id> {
    std::iter::successors(Some(id), |id| tree.parent(*id))
        .find(|id| tree.name(*id) == Some(&local_name!("table")))
}

struct Writer<'a> {
    tree: &'a Tree,
    base: Option<&'a Url>,
    /// Tables that are left out, but for what stands in them.
    layout: HashSet<Id>,
    out: String,
    open: Vec<Open>,
    /// For the addresses of links; those beyond are left out.
    room: Room,
}

impl Writer<'_> {
    fn block(&mut self, index: usize, page: &Page, block: &Block) {
        let tag = page.tag_of(block);
        let mut first = true;
        for run in page.runs(block) {
            let chain = self.chain(*run, index);
            // A block in the very element of the one before was parted from it by breaks.
            if first && chain == self.open && !chain.is_empty() && !self.out.ends_with('>') {
                self.out.push_str("<br>");
            }
            self.switch(chain);
            let raw = self.tree.raw_text(*run);
            if tag == Tag::Pre {
                escape(raw, &mut self.out);
                continue;
            }
            let starts = raw.starts_with(char::is_whitespace);
            if starts && !first {
                self.space();
            }
            let mut words = raw.split_whitespace().peekable();
            first &= words.peek().is_none();
            while let Some(word) = words.next() {
                escape(word, &mut self.out);
                if words.peek().is_some() {
                    self.out.push(' ');
                }
            }
            if raw.ends_with(char::is_whitespace) && !first {
                self.space();
            }
        }
        let kept = self.open.iter().take_while(|open| is_outer(open.name)).count();
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        self.close_to(kept);
    }

    fn space(&mut self) {
        if !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    /// The elements around a run of text that are kept, the outermost first.
    fn chain(&self, run: Id, block: usize) -> Vec<Open> {
        let mut chain: Vec<Open> =
            std::iter::successors(self.tree.parent(run), |id| self.tree.parent(*id))
                .filter_map(|id| self.kept(id))
                .collect();
        chain.reverse();
        // A table needs its rows, an item its list; what is torn out of them is a paragraph.
        let holds = chain.iter().any(|open| holds_text(open.name));
        if !holds {
            let outer = chain.iter().take_while(|open| is_outer(open.name)).count();
            chain.insert(outer, Open { place: Place::Made(block), name: "p", href: None });
        }
        chain
    }

    fn kept(&self, id: Id) -> Option<Open> {
        let name = match *self.tree.name(id)? {
            local_name!("p") => "p",
            local_name!("h1") | local_name!("h2") => "h2",
            local_name!("h3") => "h3",
            local_name!("h4") => "h4",
            local_name!("h5") => "h5",
            local_name!("h6") => "h6",
            local_name!("ul") => "ul",
            local_name!("ol") => "ol",
            local_name!("li") => "li",
            local_name!("dl") => "dl",
            local_name!("dt") => "dt",
            local_name!("dd") => "dd",
            local_name!("blockquote") => "blockquote",
            local_name!("pre") => "pre",
            local_name!("table") => "table",
            local_name!("tr") => "tr",
            local_name!("td") => "td",
            local_name!("th") => "th",
            local_name!("figcaption") => "figcaption",
            local_name!("a") => "a",
            local_name!("b") | local_name!("strong") => "strong",
            local_name!("i") | local_name!("em") => "em",
            local_name!("code") => "code",
            local_name!("sub") => "sub",
            local_name!("sup") => "sup",
            _ => return None,
        };
        if matches!(name, "table" | "tr" | "td" | "th")
            && table_of(self.tree, id).is_some_and(|table| self.layout.contains(&table))
        {
            return None;
        }
        let mut href = None;
        if name == "a" {
            href = Some(absolute(self.base, self.tree.attr(id, &local_name!("href"))?)?);
        }
        Some(Open { place: Place::Tree(id), name, href })
    }

    /// Closes what the next text does not stand in, and opens what it does.
    fn switch(&mut self, chain: Vec<Open>) {
        let shared = self.open.iter().zip(&chain).take_while(|(one, other)| one == other).count();
        self.close_to(shared);
        for open in chain.into_iter().skip(shared) {
            self.out.push('<');
            self.out.push_str(open.name);
            if let Some(href) = open.href.as_ref().filter(|href| self.room.grow(href.len())) {
                self.attribute("href", href);
            }
            self.out.push('>');
            self.open.push(open);
        }
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(open) = self.open.pop() else { return };
            self.out.push_str("</");
            self.out.push_str(open.name);
            self.out.push('>');
            if is_outer(open.name) || holds_text(open.name) {
                self.out.push('\n');
            }
        }
    }

    fn image(&mut self, image: &Image) {
        let Some(address) =
            absolute(self.base, &image.source).filter(|_| is_picture(&image.source))
        else {
            return;
        };
        self.close_to(0);
        self.out.push_str("<img");
        self.attribute("src", &address);
        self.attribute("alt", &image.alt);
        self.out.push_str(">\n");
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        escape(value, &mut self.out);
        self.out.push('"');
    }
}

/// Elements that hold others of their kind.
fn is_outer(name: &str) -> bool {
    matches!(name, "ul" | "ol" | "li" | "dl" | "dd" | "blockquote" | "table" | "tr" | "td" | "th")
}

/// Elements that hold text.
fn holds_text(name: &str) -> bool {
    matches!(
        name,
        "p" | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "li"
            | "dt"
            | "dd"
            | "blockquote"
            | "pre"
            | "td"
            | "th"
            | "figcaption"
    )
}

/// A text without what would be read as markup.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => {}
            _ => out.push(c),
        }
    }
}

/// Paragraphs that came without markup, as HTML.
pub(super) fn plain_html(paragraphs: &[String]) -> String {
    let mut out = String::new();
    for paragraph in paragraphs {
        out.push_str("<p>");
        escape(paragraph, &mut out);
        out.push_str("</p>\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(body: &str) -> String {
        let tree = Tree::read(body).unwrap();
        let page = Page::read(&tree);
        let all: Vec<usize> = (0..page.blocks.len()).collect();
        let base = crate::url::parse("https://example.com/a/").unwrap();
        html(&page, &tree, &all, Some(&base))
    }

    #[test]
    fn the_addresses_of_links_have_a_limit_together() {
        let body = format!("<p>{}</p>", "<a href=x>One</a> ".repeat(6_000));
        let base = format!("https://example.com/{}/", "b".repeat(1_900));
        let (tree, base) = (Tree::read(&body).unwrap(), crate::url::parse(&base).unwrap());
        let page = Page::read(&tree);
        let html = html(&page, &tree, &[0], Some(&base));
        assert!(html.len() < 5 << 20 && html.len() > 4 << 20, "{}", html.len());
        assert!(html.starts_with("<p><a href=") && html.ends_with("<a>One</a></p>\n"));
    }

    #[test]
    fn only_known_elements_are_written() {
        assert_eq!(
            clean(
                "<div onclick=x><p style=y>One <a href='../b?c&d' onclick=z>two</a>, <b>three</b>."
            ),
            "<p>One <a href=\"https://example.com/b?c&amp;d\">two</a>, <strong>three</strong>.</p>\n"
        );
        assert_eq!(
            clean("a &lt;script> <a href='javascript:x'>b</a>"),
            "<p>a &lt;script&gt; b</p>\n"
        );
        assert_eq!(
            clean("<b>a<br><br>b</b>"),
            "<p><strong>a</strong></p>\n<p><strong>b</strong></p>\n"
        );
    }

    #[test]
    fn lists_tables_and_quotes_keep_their_form() {
        assert_eq!(
            clean("<ul><li>a<li>b <i>c</i></ul><p>d"),
            "<ul><li>a</li>\n<li>b <em>c</em></li>\n</ul>\n<p>d</p>\n"
        );
        assert_eq!(
            clean("<table><tr><th>a<th>b<tr><td>c<td>d</table>"),
            "<table><tr><th>a</th>\n<th>b</th>\n</tr>\n<tr><td>c</td>\n<td>d</td>\n</tr>\n</table>\n"
        );
        assert_eq!(
            clean("<blockquote><p>a</p><p>b"),
            "<blockquote><p>a</p>\n<p>b</p>\n</blockquote>\n"
        );
        assert_eq!(clean("<pre>a\n  b</pre>"), "<pre>a\n  b</pre>\n");
        assert_eq!(clean("<ul><li>a<br><br>b</ul>"), "<ul><li>a<br>b</li>\n</ul>\n");
    }

    #[test]
    fn tables_that_lay_out_the_page_are_left_out() {
        assert_eq!(
            clean("<table><tr><td>a<br><br>b<td><table><tr><td>c<td>d</table><p>e</table>"),
            "<p>a</p>\n<p>b</p>\n<table><tr><td>c</td>\n<td>d</td>\n</tr>\n</table>\n<p>e</p>\n"
        );
    }

    #[test]
    fn pictures_between_paragraphs_are_kept() {
        assert_eq!(
            clean("<p>a</p><img src=/i.jpg alt='x \"y\"'><p>b</p><img src=/logo.png><p>c"),
            "<p>a</p>\n<img src=\"https://example.com/i.jpg\" alt=\"x &quot;y&quot;\">\n<p>b</p>\n<p>c</p>\n"
        );
    }
}
