//! A page as blocks of text in the order of reading, and the elements they stand in.
//!
//! A block is a run of text that no block-level element interrupts: a paragraph, a heading, an
//! item, a cell. Elements own half-open ranges of blocks, so that sums over an element are
//! differences. The walk keeps its own stack, and marks on its way what may tell of the author
//! and the date. It must never drop text because of what a name suggests: that is judged later.

use std::ops::Range;

use html5ever::{Attribute, LocalName, local_name};
use xxhash_rust::xxh3::xxh3_64;

use super::marks::{self, Marks};
use super::tags::{Kind, Sem, Tag, kind};
use super::tree::{Data, Id, Tree, attribute};

/// Elements beyond these are part of those around them.
const MAX_NODES: usize = 60_000;
const MAX_DEPTH: u16 = 220;
/// Text beyond so many blocks is not looked at.
const MAX_BLOCKS: usize = 40_000;
/// The most hints of one kind that are kept.
const MAX_HINTS: usize = 60;
const MAX_IMAGES: usize = 1_000;
/// The most of a heading, in bytes: more than any rule for titles allows.
const MAX_HEADING: usize = 2_000;

/// A block-level element.
#[derive(Debug)]
pub(super) struct Node {
    /// The index of the element around it; the first is its own.
    pub parent: usize,
    pub tag: Tag,
    /// What it is by its tag or role.
    pub sem: Option<Sem>,
    /// What its class and id say.
    pub marks: Marks,
    pub is_article_body: bool,
    pub hidden: bool,
    /// The fingerprint of its class.
    pub class: u64,
    pub depth: u16,
    /// Its first block and the one after its last.
    pub blocks: Range<usize>,
    /// Where it stands in the tree.
    pub id: Id,
}

/// A run of text.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// Where its text stands in the page's, every run of white space as one space.
    pub text: Range<usize>,
    /// The element it stands in.
    pub node: usize,
    /// Characters in links, by weight.
    pub link_chars: u32,
    pub links: u32,
    /// Characters in bold or italics, by weight.
    pub bold_chars: u32,
    /// Whether a `time` element is inside.
    pub has_time: bool,
    /// The nodes of the tree that its text comes from.
    pub runs: Range<usize>,
}

/// An element that may tell a date.
#[derive(Debug)]
pub(super) struct TimeHint {
    pub value: String,
    pub text: String,
    pub name: String,
}

/// An element that may tell an author.
#[derive(Debug)]
pub(super) struct NameHint {
    /// Its class and id in lower case.
    pub names: String,
    pub itemprop: String,
    pub text: String,
    /// The block that comes with it or after it.
    pub block: usize,
}

/// A picture between blocks.
#[derive(Debug)]
pub(super) struct Image {
    pub source: String,
    pub alt: String,
    /// The block that comes with it or after it.
    pub block: usize,
}

/// The whole page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Block-level elements, each before its descendants; the first is the body.
    pub nodes: Vec<Node>,
    /// Blocks in the order of reading.
    pub blocks: Vec<Block>,
    texts: String,
    runs: Vec<Id>,
    pub headings: Vec<(String, usize)>,
    pub times: Vec<TimeHint>,
    pub names: Vec<NameHint>,
    /// Links to pages about people.
    pub people: Vec<NameHint>,
    pub rel_authors: Vec<String>,
    pub images: Vec<Image>,
}

impl Page {
    /// Reads the body of a document.
    pub(super) fn read(tree: &Tree) -> Self {
        let root = tree.body();
        let mut reader = Reader::new(tree);
        reader.open(root, Kind::Block(Tag::Body), &[]);
        let mut at = root;
        'walk: loop {
            let inside = at == root || reader.enter(at);
            if inside && let Some(child) = tree.first_child(at) {
                at = child;
                continue;
            }
            if inside && at != root {
                reader.leave(at);
            }
            loop {
                if at == root {
                    break 'walk;
                }
                if let Some(next) = tree.next_sibling(at) {
                    at = next;
                    break;
                }
                let Some(parent) = tree.parent(at) else { break 'walk };
                at = parent;
                if at != root {
                    reader.leave(at);
                }
            }
        }
        reader.close();
        reader.page
    }

    /// The text of a block.
    pub(super) fn text(&self, block: &Block) -> &str {
        self.texts.get(block.text.clone()).unwrap_or_default()
    }

    /// The text of a block by its number.
    pub(super) fn text_at(&self, index: usize) -> &str {
        self.blocks.get(index).map_or("", |block| self.text(block))
    }

    /// The nodes of the tree that a block's text comes from.
    pub(super) fn runs(&self, block: &Block) -> &[Id] {
        self.runs.get(block.runs.clone()).unwrap_or_default()
    }

    /// The element of a block.
    pub(super) fn node_of(&self, block: &Block) -> Option<&Node> {
        self.nodes.get(block.node)
    }

    /// The tag of the element that a block stands in.
    pub(super) fn tag_of(&self, block: &Block) -> Tag {
        self.node_of(block).map_or(Tag::Other, |node| node.tag)
    }

    /// The elements around a block, its own first.
    pub(super) fn around(&self, node: usize) -> impl Iterator<Item = (usize, &Node)> {
        let first = self.nodes.get(node).map(|found| (node, found));
        std::iter::successors(first, |(index, node)| {
            if *index == 0 { None } else { Some((node.parent, self.nodes.get(node.parent)?)) }
        })
    }
}

/// How much a character counts: a sign of a script without spaces is half a word.
pub(super) fn weight(c: char) -> u32 {
    if c.is_ascii() || !crate::simhash::is_unspaced(c) { 1 } else { 3 }
}

struct Reader<'a> {
    tree: &'a Tree,
    page: Page,
    /// Indexes of the open elements, and whether each is a node of its own.
    open: Vec<(usize, bool)>,
    block: Block,
    chars: u32,
    has_word: bool,
    /// Open links, and open bold or italics.
    links: u32,
    bold: u32,
    /// White space is due before the next character.
    space: bool,
    /// Line breaks since the last character.
    breaks: u32,
}

impl<'a> Reader<'a> {
    fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            page: Page::default(),
            open: Vec::new(),
            block: Block::default(),
            chars: 0,
            has_word: false,
            links: 0,
            bold: 0,
            space: false,
            breaks: 0,
        }
    }

    /// Takes a node in; whether its children are to be walked.
    fn enter(&mut self, id: Id) -> bool {
        match self.tree.data(id) {
            Data::Text(text) => {
                self.text(id, text);
                false
            }
            Data::Element { name, attrs } => {
                if name.local == local_name!("img") {
                    self.image(attrs);
                }
                self.element(id, kind(&name.local), attrs)
            }
            Data::Other => false,
        }
    }

    fn element(&mut self, id: Id, kind: Kind, attrs: &[Attribute]) -> bool {
        match kind {
            Kind::Skipped => return false,
            Kind::Inline { link, bold, time } => {
                self.links += u32::from(link);
                self.block.links += u32::from(link);
                self.bold += u32::from(bold);
                self.block.has_time |= time;
                if !attrs.is_empty() {
                    self.hints(id, attrs, link, time);
                }
            }
            Kind::Break => {
                self.breaks += 1;
                self.space = true;
                if self.breaks > 1 {
                    self.flush();
                }
            }
            Kind::Rule => self.flush(),
            Kind::Block(tag) => {
                self.flush();
                self.open(id, kind, attrs);
                if tag == Tag::H1 && self.page.headings.len() < MAX_HINTS {
                    let text = self.tree.text(id, MAX_HEADING, false);
                    self.page.headings.push((text, self.page.blocks.len()));
                }
                if !attrs.is_empty() {
                    self.hints(id, attrs, false, false);
                }
            }
        }
        true
    }

    /// Keeps a picture; where scripts put its address, and not those that are too small to see.
    fn image(&mut self, attrs: &[Attribute]) {
        let get = |name: &LocalName| attribute(attrs, name).map(str::trim).unwrap_or_default();
        let own = |name: &str| {
            let attr = attrs.iter().find(|attr| &*attr.name.local == name);
            attr.map(|attr| attr.value.trim()).filter(|value| !value.is_empty())
        };
        let small = |name: &LocalName| get(name).parse::<u32>().is_ok_and(|pixels| pixels < 60);
        if small(&local_name!("width"))
            || small(&local_name!("height"))
            || self.page.images.len() > MAX_IMAGES
        {
            return;
        }
        let source =
            Some(get(&local_name!("src"))).filter(|s| !s.is_empty() && !s.starts_with("data:"));
        let later = || ["data-src", "data-lazy-src", "data-original"].into_iter().find_map(own);
        let set = || get(&local_name!("srcset")).split([' ', ',']).find(|part| !part.is_empty());
        if let Some(source) = source.or_else(later).or_else(set) {
            let alt = get(&local_name!("alt")).split_whitespace().collect::<Vec<_>>().join(" ");
            let image = Image { source: source.to_owned(), alt, block: self.page.blocks.len() };
            self.page.images.push(image);
        }
    }

    fn leave(&mut self, id: Id) {
        match self.tree.name(id).map(kind) {
            Some(Kind::Inline { link, bold, .. }) => {
                self.links -= u32::from(link);
                self.bold -= u32::from(bold);
            }
            Some(Kind::Block(_)) => self.close(),
            _ => {}
        }
    }

    fn open(&mut self, id: Id, kind: Kind, attrs: &[Attribute]) {
        let index = self.page.nodes.len();
        let outer = self.open.last().map(|(outer, _)| *outer);
        let depth =
            outer.and_then(|outer| self.page.nodes.get(outer)).map_or(0, |node| node.depth + 1);
        if index >= MAX_NODES || depth > MAX_DEPTH {
            self.open.push((outer.unwrap_or_default(), false));
            return;
        }
        let tag = if let Kind::Block(tag) = kind { tag } else { Tag::Other };
        let mut node = Node {
            parent: outer.unwrap_or(index),
            tag,
            sem: tag.sem(),
            marks: Marks::default(),
            is_article_body: false,
            hidden: false,
            class: 0,
            depth,
            blocks: self.page.blocks.len()..self.page.blocks.len(),
            id,
        };
        read_attributes(&mut node, attrs);
        self.page.nodes.push(node);
        self.open.push((index, true));
    }

    fn close(&mut self) {
        self.flush();
        let blocks = self.page.blocks.len();
        if let Some((index, true)) = self.open.pop()
            && let Some(node) = self.page.nodes.get_mut(index)
        {
            node.blocks.end = blocks;
        }
    }

    fn text(&mut self, id: Id, text: &str) {
        let before = self.page.texts.len();
        let mut added = 0;
        for c in text.chars() {
            if c.is_whitespace() {
                self.space = true;
                continue;
            }
            if matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}') {
                continue;
            }
            if std::mem::take(&mut self.space) && self.chars > 0 {
                self.page.texts.push(' ');
                self.chars += 1;
                added += u32::from(added > 0);
            }
            self.page.texts.push(c);
            let weight = weight(c);
            self.chars += weight;
            added += weight;
            self.has_word |= c.is_alphanumeric();
        }
        if self.page.texts.len() > before {
            self.breaks = 0;
            self.page.runs.push(id);
            self.block.link_chars += if self.links > 0 { added } else { 0 };
            self.block.bold_chars += if self.bold > 0 { added } else { 0 };
        }
    }

    /// Ends the run of text.
    fn flush(&mut self) {
        self.space = false;
        self.breaks = 0;
        let (start, run) =
            self.page.blocks.last().map_or((0, 0), |last| (last.text.end, last.runs.end));
        let mut block = std::mem::take(&mut self.block);
        self.chars = 0;
        if std::mem::take(&mut self.has_word) && self.page.blocks.len() < MAX_BLOCKS {
            block.text = start..self.page.texts.len();
            block.runs = run..self.page.runs.len();
            block.node = self.open.last().map_or(0, |(node, _)| *node);
            self.page.blocks.push(block);
        } else {
            self.page.texts.truncate(start);
            self.page.runs.truncate(run);
        }
    }

    /// Keeps what may tell of authors and dates.
    fn hints(&mut self, id: Id, attrs: &[Attribute], link: bool, time: bool) {
        let get = |name: &LocalName| attribute(attrs, name).unwrap_or_default();
        let itemprop = get(&local_name!("itemprop"));
        let (class, own_id) = (get(&local_name!("class")), get(&local_name!("id")));
        let block = self.page.blocks.len();
        let dated = matches!(itemprop, "datePublished" | "dateModified" | "datepublished");
        let title = if link || time { "" } else { get(&local_name!("title")) };
        if (time || dated || starts_with_year(title)) && self.page.times.len() < MAX_HINTS {
            let value = match get(&local_name!("datetime")) {
                "" if dated => get(&local_name!("content")),
                "" => title,
                value => value,
            };
            self.page.times.push(TimeHint {
                value: value.chars().take(80).collect(),
                text: self.tree.text(id, 80, false),
                name: if itemprop.is_empty() { class } else { itemprop }.to_lowercase(),
            });
        }
        let names_author = |text: &str| marks::names_author(text);
        if (matches!(itemprop, "author" | "creator")
            || itemprop == "name" && link
            || names_author(class)
            || names_author(own_id))
            && self.page.names.len() < MAX_HINTS
        {
            self.page.names.push(NameHint {
                names: format!("{class} {own_id}").to_lowercase(),
                itemprop: itemprop.to_owned(),
                text: self.tree.text(id, 200, true),
                block,
            });
        }
        if !link {
            return;
        }
        if marks::leads_to_person(get(&local_name!("href"))) && self.page.people.len() < MAX_HINTS {
            let text = self.tree.text(id, 60, true);
            if (3..60).contains(&text.len()) {
                let names = class.to_lowercase();
                self.page.people.push(NameHint { names, itemprop: String::new(), text, block });
            }
        }
        if get(&local_name!("rel")).split_ascii_whitespace().any(|word| word == "author")
            && self.page.rel_authors.len() < MAX_HINTS
        {
            self.page.rel_authors.push(self.tree.text(id, 200, false));
        }
    }
}

/// What the attributes of an element say about it.
fn read_attributes(node: &mut Node, attrs: &[Attribute]) {
    let (mut class, mut id) = ("", "");
    for attr in attrs {
        let value: &str = &attr.value;
        match attr.name.local {
            local_name!("class") => class = value,
            local_name!("id") => id = value,
            local_name!("itemprop") => {
                node.is_article_body = value.eq_ignore_ascii_case("articleBody");
            }
            local_name!("role") => node.sem = Sem::of_role(value).or(node.sem),
            local_name!("hidden") => node.hidden = true,
            local_name!("aria-hidden") => node.hidden |= value == "true",
            local_name!("style") => node.hidden |= marks::hides(value),
            _ => {}
        }
    }
    if !class.is_empty() {
        node.class = xxh3_64(class.as_bytes());
    }
    if node.tag != Tag::Body && !(class.is_empty() && id.is_empty()) {
        node.marks = marks::read(class, id);
    }
    if node.is_article_body {
        node.marks.set(marks::Mark::Body);
    }
}

fn starts_with_year(text: &str) -> bool {
    matches!(text.as_bytes(), [b'1' | b'2', b'0' | b'9', _, _, b'-', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> Page {
        Page::read(&Tree::read(html).unwrap())
    }

    fn texts(html: &str) -> Vec<String> {
        let page = read(html);
        page.blocks.iter().map(|block| page.text(block).to_owned()).collect()
    }

    #[test]
    fn runs_of_text_are_blocks() {
        assert_eq!(texts("<p>a <b>b</b>\n c<p>d"), ["a b c", "d"]);
        assert_eq!(texts("a<br>b<br><br>c<hr>d"), ["a b", "c", "d"]);
        assert_eq!(texts("<div>a<script>no</script><div> — </div>b"), ["a", "b"]);
        assert_eq!(texts("so\u{ad}ft"), ["soft"]);
        assert_eq!(texts("<table><tr><td>1<td>2</table>"), ["1", "2"]);
    }

    #[test]
    fn elements_own_ranges_of_blocks() {
        let page = read("<p>a<div><p>b<p>c</div><p>d");
        let div = page.nodes.iter().find(|node| node.tag == Tag::Div).unwrap();
        assert_eq!(div.blocks, 1..3);
        assert_eq!(page.nodes[0].blocks, 0..4);
        assert!(page.nodes.iter().skip(1).all(|node| node.parent < page.nodes.len()));
    }

    #[test]
    fn links_are_counted_by_their_characters() {
        let page = read("<p>one <a href=/>two three</a> four");
        assert_eq!((page.blocks[0].link_chars, page.blocks[0].links), (9, 1));
        let page = read("<p>日本<i>語</i>");
        assert_eq!(page.blocks[0].bold_chars, 3);
    }

    #[test]
    fn deep_elements_belong_to_those_around_them() {
        let html = format!("{}x{}y", "<div>".repeat(1_000), "</div>".repeat(1_000));
        let page = read(&html);
        assert_eq!(page.nodes.len(), usize::from(MAX_DEPTH) + 1);
        assert_eq!(page.nodes[0].blocks, 0..2);
    }

    #[test]
    fn hints_of_authors_and_dates_are_kept() {
        let page = read(
            "<h1>T</h1><span class=Byline>By <a href=/author/jane rel=author>Jane</a></span>\
             <time datetime=2026-05-03>3 May</time>",
        );
        assert_eq!(page.names[0].text, "By Jane");
        assert_eq!(page.people[0].text, "Jane");
        assert_eq!(page.rel_authors, ["Jane"]);
        assert_eq!(page.times[0].value, "2026-05-03");
        assert_eq!(page.headings, [("T".to_owned(), 0)]);
    }
}
