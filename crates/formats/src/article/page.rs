//! A page as blocks of text in the order of reading, and the elements they stand in.
//!
//! A block is a run of text that no block-level element interrupts: a paragraph, a heading, an
//! item, a row of a table. Elements own half-open ranges of blocks, so that sums over an element
//! are differences. The walk keeps its own stack: no page is too deep for it.

use std::collections::HashMap;
use std::sync::LazyLock;

use dom_query::{Document, Element, NodeData, NodeRef};

use super::names::{self, Hints};

/// Elements that are dropped with all they hold.
const SKIPPED: &str = "\
    applet audio button canvas datalist dialog embed frame frameset head iframe img input link \
    map math meta meter noscript object option picture progress script select source style svg \
    template textarea title track video";
/// Elements that do not interrupt a run of text.
const INLINE: &str = "\
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rb \
    rp rt ruby s samp small span strike strong sub sup time tt u var wbr";
/// Other elements that something is decided by.
const KNOWN: &str = "\
    article aside blockquote caption dd details div dt figcaption figure footer form h1 h2 h3 h4 \
    h5 h6 header li main menu nav ol p pre section summary table td th tr ul";
/// Elements that a table of data does not hold: with them it lays out the page.
const LAYOUT: &str = "\
    article blockquote center div form h1 h2 h3 h4 h5 h6 hr ol p pre section table ul";
/// A cell with more text than this is no figure but prose.
const MAX_CELL: usize = 400;

/// What the walk does with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Skipped,
    Inline,
    Break,
    Cell,
    Block(&'static str),
}

static KINDS: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
    let skipped = SKIPPED.split(' ').map(|tag| (tag, Kind::Skipped));
    let inline = INLINE.split(' ').map(|tag| (tag, Kind::Inline));
    let known = KNOWN.split(' ').map(|tag| (tag, Kind::Block(tag)));
    let breaks = ["br", "hr"].map(|tag| (tag, Kind::Break));
    skipped.chain(inline).chain(known).chain(breaks).collect()
});

/// A block-level element.
#[derive(Debug)]
pub(super) struct Node {
    /// The index of the element around it; the root is its own.
    pub parent: usize,
    /// Its tag, or what its role makes of it.
    pub tag: &'static str,
    /// What its names say.
    pub hints: Hints,
    /// Its microdata name.
    pub is_article_body: bool,
    /// Its first block and the one after its last.
    pub blocks: (usize, usize),
    /// The index after its last descendant.
    pub end: usize,
    /// Elements with the same tag and class have the same signature.
    pub signature: u64,
}

/// A run of text.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The text, every run of white space as one space.
    pub text: String,
    /// The element it stands in.
    pub node: usize,
    /// Its characters.
    pub chars: usize,
    /// Those of them that are links.
    pub link_chars: usize,
    /// Whether a `time` element is inside.
    pub has_time: bool,
}

impl Block {
    /// The share of the text that is links.
    pub(super) fn link_density(&self) -> f32 {
        ratio(self.link_chars, self.chars)
    }
}

/// One count over another; 0 when there is nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of a page are far below 2^24")]
pub(super) fn ratio(part: usize, whole: usize) -> f32 {
    if whole == 0 { 0.0 } else { part as f32 / whole as f32 }
}

/// The whole page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Block-level elements, each before its descendants; the first is the body.
    pub nodes: Vec<Node>,
    /// Blocks in the order of reading.
    pub blocks: Vec<Block>,
}

impl Page {
    /// Reads the body of a document.
    pub(super) fn read(document: &Document) -> Self {
        let root = document.body().unwrap_or_else(|| document.html_root());
        let mut reader = Reader::default();
        reader.open(&root, "body", Hints::default());
        let mut at = root;
        'walk: loop {
            let inside = at.id == root.id || reader.enter(&at);
            if inside && let Some(child) = at.first_child() {
                at = child;
                continue;
            }
            if inside && at.id != root.id {
                reader.leave(&at);
            }
            loop {
                if at.id == root.id {
                    break 'walk;
                }
                if let Some(next) = at.next_sibling() {
                    at = next;
                    break;
                }
                let Some(parent) = at.parent() else { break 'walk };
                at = parent;
                if at.id != root.id {
                    reader.leave(&at);
                }
            }
        }
        reader.close();
        reader.page
    }

    /// The tag of the element that a block stands in.
    pub(super) fn tag_of(&self, block: &Block) -> &'static str {
        self.nodes.get(block.node).map_or("", |node| node.tag)
    }
}

#[derive(Default)]
struct Reader {
    page: Page,
    /// Indexes of the open elements.
    open: Vec<usize>,
    /// Open tables: whether each holds data.
    tables: Vec<bool>,
    block: Block,
    /// Open links.
    links: usize,
    /// White space is due before the next character.
    space: bool,
    /// Line breaks since the last character.
    breaks: usize,
}

impl Reader {
    /// Takes a node in; whether its children are to be walked.
    fn enter(&mut self, node: &NodeRef<'_>) -> bool {
        let seen = node.query(|inner| match &inner.data {
            NodeData::Text { contents } => Err(contents.to_string()),
            NodeData::Element(element) => Ok((self.kind(element), hints(element))),
            _ => Err(String::new()),
        });
        match seen {
            Some(Ok((kind, hints))) => return self.element(node, kind, hints),
            Some(Err(text)) => self.text(&text),
            None => {}
        }
        false
    }

    fn element(&mut self, node: &NodeRef<'_>, kind: Kind, hints: Hints) -> bool {
        match kind {
            Kind::Skipped => return false,
            Kind::Inline if hints.hidden => return false,
            Kind::Inline => {
                self.links += usize::from(node.has_name("a"));
                self.block.has_time |= node.has_name("time");
            }
            Kind::Break => {
                self.breaks += 1;
                self.space = true;
                if self.breaks > 1 || node.has_name("hr") {
                    self.flush();
                }
            }
            Kind::Cell => {
                if self.block.chars > 0 {
                    self.space = true;
                    self.text("| ");
                }
            }
            Kind::Block(tag) => {
                self.flush();
                if tag == "table" {
                    self.tables.push(holds_data(node));
                }
                self.open(node, tag, hints);
            }
        }
        true
    }

    fn leave(&mut self, node: &NodeRef<'_>) {
        let kind = node.query(|inner| match &inner.data {
            NodeData::Element(element) => Some(self.kind(element)),
            _ => None,
        });
        match kind.flatten() {
            Some(Kind::Inline) => self.links -= usize::from(node.has_name("a") && self.links > 0),
            Some(Kind::Block(tag)) => {
                self.flush();
                if tag == "table" {
                    self.tables.pop();
                }
                self.close();
            }
            _ => {}
        }
    }

    fn kind(&self, element: &Element) -> Kind {
        let tag: &str = &element.name.local;
        if matches!(tag, "td" | "th") && self.tables.last() == Some(&true) {
            return Kind::Cell;
        }
        match KINDS.get(tag).copied().unwrap_or(Kind::Block("other")) {
            Kind::Block(tag) => Kind::Block(by_role(&attr(element, "role")).unwrap_or(tag)),
            kind => kind,
        }
    }

    fn open(&mut self, node: &NodeRef<'_>, tag: &'static str, hints: Hints) {
        let index = self.page.nodes.len();
        let class = node.attr("class").unwrap_or_default();
        let itemprop = node.attr("itemprop").unwrap_or_default();
        self.page.nodes.push(Node {
            parent: self.open.last().copied().unwrap_or(index),
            tag,
            hints,
            is_article_body: itemprop.split_ascii_whitespace().any(|name| name == "articleBody"),
            blocks: (self.page.blocks.len(), self.page.blocks.len()),
            end: index + 1,
            signature: xxhash_rust::xxh3::xxh3_64(format!("{tag} {class}").as_bytes()),
        });
        self.open.push(index);
    }

    fn close(&mut self) {
        self.flush();
        let (blocks, nodes) = (self.page.blocks.len(), self.page.nodes.len());
        if let Some(node) = self.open.pop().and_then(|index| self.page.nodes.get_mut(index)) {
            node.blocks.1 = blocks;
            node.end = nodes;
        }
    }

    fn text(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_whitespace() {
                self.space = true;
            } else if !matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}') {
                if self.space && self.block.chars > 0 {
                    self.push(' ');
                }
                self.space = false;
                self.breaks = 0;
                self.push(c);
            }
        }
    }

    fn push(&mut self, c: char) {
        self.block.text.push(c);
        self.block.chars += 1;
        self.block.link_chars += usize::from(self.links > 0);
    }

    /// Ends the current block; one without a letter or digit says nothing.
    fn flush(&mut self) {
        self.space = false;
        self.breaks = 0;
        let mut block = std::mem::take(&mut self.block);
        if block.text.chars().any(char::is_alphanumeric) {
            block.node = self.open.last().copied().unwrap_or(0);
            self.page.blocks.push(block);
        }
    }
}

/// The tag that a role stands for.
fn by_role(role: &str) -> Option<&'static str> {
    Some(match role {
        "main" => "main",
        "article" => "article",
        "navigation" | "menu" | "menubar" | "search" | "dialog" | "alertdialog" => "nav",
        "complementary" => "aside",
        "contentinfo" => "footer",
        "banner" => "header",
        _ => return None,
    })
}

fn attr(element: &Element, name: &str) -> String {
    element.attr(name).map(|value| value.to_string()).unwrap_or_default()
}

fn hints(element: &Element) -> Hints {
    let mut hints = names::judge(&attr(element, "class"), &attr(element, "id"));
    hints.hidden |= is_hidden(element);
    hints
}

fn is_hidden(element: &Element) -> bool {
    let style: String = attr(element, "style").to_ascii_lowercase();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    element.has_attr("hidden")
        || attr(element, "aria-hidden") == "true"
        || style.contains("display:none")
        || style.contains("visibility:hidden")
}

/// Whether the rows of a table are lines of data. Looks no further than the first element that
/// makes it a layout, so that nested tables stay linear.
fn holds_data(table: &NodeRef<'_>) -> bool {
    let mut cell = 0;
    for node in table.descendants_it() {
        let fits = node.query_or(true, |inner| match &inner.data {
            NodeData::Text { contents } => {
                cell += contents.len();
                cell <= MAX_CELL
            }
            NodeData::Element(element) => {
                if matches!(&*element.name.local, "td" | "th") {
                    cell = 0;
                }
                !LAYOUT.split(' ').any(|tag| *tag == *element.name.local)
            }
            _ => true,
        });
        if !fits {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(html: &str) -> Vec<String> {
        let page = Page::read(&Document::from(html));
        page.blocks.into_iter().map(|block| block.text).collect()
    }

    #[test]
    fn blocks_are_runs_of_text() {
        assert_eq!(
            texts(
                "<body>a <b>b</b>\n c<div>d<p>e&nbsp;<i>f</i>g</p> h <br> i<br><br>j</div>\
                 <script>no</script><p> … <ul><li>k<li>l&shy;m</ul><hr>n"
            ),
            ["a b c", "d", "e fg", "h i", "j", "k", "lm", "n"]
        );
    }

    #[test]
    fn rows_of_data_are_lines() {
        assert_eq!(
            texts("<table><tr><th>Year<th>Sum<tr><td>2025<td><b>7</b> m</table><p>x"),
            ["Year | Sum", "2025 | 7 m", "x"]
        );
        assert_eq!(texts("<table><tr><td><div>menu</div><td><p>text</table>"), ["menu", "text"]);
    }

    #[test]
    fn elements_own_their_blocks() {
        let page = Page::read(&Document::from(
            "<body><p>a<article class=x><p>b<a href=/>c</a><time>d</time></article><p>e",
        ));
        let article = page.nodes.iter().find(|node| node.tag == "article").unwrap();
        assert_eq!(article.blocks, (1, 2));
        assert_eq!(page.nodes[0].blocks, (0, 3));
        assert_eq!(page.nodes[0].end, page.nodes.len());
        let block = &page.blocks[1];
        assert_eq!((block.text.as_str(), block.link_chars, block.has_time), ("bcd", 1, true));
        assert_eq!(page.tag_of(block), "p");
    }

    #[test]
    fn hidden_text_is_told_apart() {
        let page = Page::read(&Document::from(
            "<p>a<span hidden>no</span></p><div style='display : none'><p>b</div>",
        ));
        assert_eq!(page.blocks[0].text, "a");
        assert!(page.nodes.iter().any(|node| node.hints.hidden && node.blocks == (1, 2)));
    }
}
