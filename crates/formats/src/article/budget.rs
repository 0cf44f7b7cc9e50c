//! What reading one HTML document may cost, counted inside the parser.
//!
//! html5ever follows the standard, and the standard has rules whose cost grows with the square of a
//! document: every start tag looks through the open elements, formatting that is never closed is
//! copied into every paragraph after it, each attribute is compared with all others of its tag. All
//! of these looks go through the tree sink (`elem_name`, `same_node`) or are visible in the tokens,
//! so they are counted there. A document that is over its budget gets no further token: it costs as
//! much as it has cost until then.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use html5ever::interface::Tracer;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{LocalName, TokenizerResult, local_name};

use super::tree::{Builder, Id, Unbounded};

/// The most nodes that are kept.
pub(super) const MAX_NODES: usize = 200_000;
/// Looks at elements and attributes; ordinary pages take some hundred thousand.
const MAX_STEPS: u64 = 40_000_000;
/// Elements in elements; browsers stop at 512.
const MAX_DEPTH: u32 = 1_500;
/// Elements that are open or to be opened again at the same time.
const MAX_OPEN: usize = 3_000;
/// Attributes of all elements.
const MAX_ATTRIBUTES: usize = 500_000;
/// Attributes that are kept of one tag; the rest are left out.
const MAX_TAG_ATTRIBUTES: usize = 400;
/// Attributes in one tag before its end is reached. The tokenizer compares each with all before it.
const MAX_PENDING_ATTRIBUTES: usize = 4_000;
/// Different names of elements and attributes that are no part of HTML. Each is kept in a table that
/// all threads share and that gets slow when it is full.
const MAX_NAMES: usize = 2_000;
/// Names up to this length are not in that table.
const INLINE_NAME: usize = 7;
/// Bytes that are handed to the tokenizer at a time.
const PIECE: usize = 4 << 10;
/// Tags between two counts of the open elements.
const COUNT_EVERY: u32 = 16;

/// What a document has cost so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    steps: Cell<u64>,
    nodes: Cell<usize>,
    attributes: Cell<usize>,
    deepest: Cell<u32>,
    /// Elements that are open or to be opened again, and those for formatting among them.
    open: Cell<usize>,
    formatting: Cell<usize>,
    over: Cell<bool>,
}

impl Budget {
    /// Counts one look at an element.
    pub(super) fn step(&self) {
        self.steps(1);
    }

    /// Counts looks at elements or attributes.
    pub(super) fn steps(&self, count: usize) {
        self.steps.set(self.steps.get() + count as u64);
    }

    pub(super) fn node(&self) {
        self.nodes.set(self.nodes.get() + 1);
    }

    pub(super) fn attributes(&self, count: usize) {
        self.steps(count);
        self.attributes.set(self.attributes.get() + count);
    }

    pub(super) fn depth(&self, depth: u32) {
        self.deepest.set(self.deepest.get().max(depth));
    }

    fn is_over(&self) -> bool {
        self.over.get()
            || self.steps.get() > MAX_STEPS
            || self.nodes.get() > MAX_NODES
            || self.attributes.get() > MAX_ATTRIBUTES
            || self.deepest.get() > MAX_DEPTH
            || self.open.get() > MAX_OPEN
    }
}

/// Reads a document into `builder` within its budget.
pub(super) fn parse(html: &str, builder: Builder) -> Result<Builder, Unbounded> {
    let tokenizer = Tokenizer::new(Meter::new(builder), TokenizerOpts::default());
    let (text, input) = (StrTendril::from_slice(html), BufferQueue::default());
    let (mut at, mut pending) = (0_usize, PendingTag::default());
    while let Some(piece) = html.get(at..).and_then(next_piece) {
        tokenizer.sink.emitted.set(false);
        let (start, length) = (u32::try_from(at), u32::try_from(piece.len()));
        let (Ok(start), Ok(length)) = (start, length) else { return Err(Unbounded) };
        input.push_back(text.subtendril(start, length));
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        if tokenizer.sink.emitted.get() {
            pending = PendingTag::behind(piece);
        } else {
            pending.read(piece.as_bytes());
        }
        if pending.attributes > MAX_PENDING_ATTRIBUTES || tokenizer.sink.is_over() {
            return Err(Unbounded);
        }
        at += piece.len();
    }
    tokenizer.end();
    let builder = tokenizer.sink.tree.sink;
    if builder.budget.is_over() { Err(Unbounded) } else { Ok(builder) }
}

/// What the tokenizer is given next. It has a `<` at its end only: where nothing comes out of the
/// tokenizer after that, the `<` begins a tag, a comment or the like.
fn next_piece(rest: &str) -> Option<&str> {
    if rest.is_empty() {
        return None;
    }
    let mut end = PIECE.min(rest.len());
    while !rest.is_char_boundary(end) {
        end += 1;
    }
    let piece = rest.get(..end)?;
    match memchr::memchr(b'<', piece.as_bytes()) {
        Some(at) => piece.get(..=at),
        None => Some(piece),
    }
}

/// Stands between tokenizer and tree builder.
struct Meter {
    tree: TreeBuilder<Id, Builder>,
    /// Whether something came out of the tokenizer.
    emitted: Cell<bool>,
    tags: Cell<u32>,
    names: RefCell<HashSet<LocalName>>,
}

impl Meter {
    fn new(builder: Builder) -> Self {
        Self {
            tree: TreeBuilder::new(builder, TreeBuilderOpts::default()),
            emitted: Cell::new(false),
            tags: Cell::new(0),
            names: RefCell::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.tree.sink.budget.is_over()
    }

    /// Counts a tag, and leaves out what it has too many of.
    fn tag(&self, tag: &mut Tag) {
        let budget = &self.tree.sink.budget;
        // What the tokenizer did to find duplicates.
        budget.steps(tag.attrs.len() * tag.attrs.len() / 2);
        if !self.knows(&tag.name) {
            budget.over.set(true);
        }
        if tag.kind == TagKind::EndTag {
            tag.attrs.clear();
        }
        tag.attrs.truncate(MAX_TAG_ATTRIBUTES);
        tag.attrs.retain(|attr| self.knows(&attr.name.local));
        self.tags.set(self.tags.get().wrapping_add(1));
        if self.tags.get().is_multiple_of(COUNT_EVERY) {
            budget.open.set(0);
            budget.formatting.set(0);
            self.tree.trace_handles(&OpenElements(&self.tree.sink));
        }
        if tag.kind == TagKind::StartTag && is_formatting(&tag.name) {
            // The tree builder compares it with every formatting element that is open, with copies
            // of all attributes that it puts in order first.
            let each = 4 + 32 * tag.attrs.len();
            budget.steps(budget.formatting.get() * each);
            budget.formatting.set(budget.formatting.get() + 1);
        }
    }

    /// Whether a name is part of HTML, or one of the first others.
    fn knows(&self, name: &LocalName) -> bool {
        if name.len() <= INLINE_NAME {
            return true;
        }
        let mut names = self.names.borrow_mut();
        names.contains(name) || names.len() < MAX_NAMES && names.insert(name.clone())
    }
}

impl TokenSink for Meter {
    type Handle = Id;

    fn process_token(&self, mut token: Token, line: u64) -> TokenSinkResult<Id> {
        match &mut token {
            Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::TagToken(tag) => self.tag(tag),
            _ => {}
        }
        self.emitted.set(true);
        if self.is_over() {
            return TokenSinkResult::Continue;
        }
        self.tree.process_token(token, line)
    }

    fn end(&self) {
        self.tree.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.tree.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Counts the elements that a tree builder has in hand.
struct OpenElements<'a>(&'a Builder);

impl Tracer for OpenElements<'_> {
    type Handle = Id;

    fn trace_handle(&self, id: &Id) {
        let budget = &self.0.budget;
        budget.open.set(budget.open.get() + 1);
        if self.0.is_named(*id, is_formatting) {
            budget.formatting.set(budget.formatting.get() + 1);
        }
    }
}

fn is_formatting(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("a")
            | local_name!("b")
            | local_name!("big")
            | local_name!("code")
            | local_name!("em")
            | local_name!("font")
            | local_name!("i")
            | local_name!("nobr")
            | local_name!("s")
            | local_name!("small")
            | local_name!("strike")
            | local_name!("strong")
            | local_name!("tt")
            | local_name!("u")
    )
}

/// Where in a tag the tokenizer is that has not come to its end, as the standard has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TagState {
    /// Before a `<`.
    #[default]
    Start,
    /// Behind a `<`.
    Open,
    /// Behind `</`.
    EndOpen,
    TagName,
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
    /// A comment or the like, or text.
    Other,
}

/// Counts the attributes of a tag before the tokenizer hands it out.
#[derive(Debug, Default)]
struct PendingTag {
    state: TagState,
    attributes: usize,
}

impl PendingTag {
    /// What begins behind a piece that was tokenized to its end.
    fn behind(piece: &str) -> Self {
        let state = if piece.ends_with('<') { TagState::Open } else { TagState::Start };
        Self { state, attributes: 0 }
    }

    fn read(&mut self, bytes: &[u8]) {
        if self.state == TagState::Other {
            return;
        }
        for byte in bytes {
            let next = self.state.after(*byte);
            self.attributes += usize::from(next == TagState::Name && self.state != TagState::Name);
            self.state = next;
        }
    }
}

impl TagState {
    const fn after(self, byte: u8) -> Self {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r');
        match self {
            Self::Start if byte == b'<' => Self::Open,
            Self::Start => Self::Start,
            Self::Open if byte.is_ascii_alphabetic() => Self::TagName,
            Self::Open if byte == b'/' => Self::EndOpen,
            Self::EndOpen if byte.is_ascii_alphabetic() => Self::TagName,
            Self::Open | Self::EndOpen | Self::Other => Self::Other,
            Self::Quoted(quote) if quote == byte => Self::BeforeName,
            Self::Quoted(quote) => Self::Quoted(quote),
            _ if byte == b'>' => Self::Other,
            Self::BeforeValue if space => Self::BeforeValue,
            Self::BeforeValue if matches!(byte, b'"' | b'\'') => Self::Quoted(byte),
            Self::BeforeValue => Self::Unquoted,
            Self::Unquoted if space => Self::BeforeName,
            Self::Unquoted => Self::Unquoted,
            _ if byte == b'/' => Self::BeforeName,
            Self::TagName if space => Self::BeforeName,
            Self::TagName => Self::TagName,
            Self::BeforeName if space => Self::BeforeName,
            Self::Name | Self::AfterName if space => Self::AfterName,
            Self::Name | Self::AfterName if byte == b'=' => Self::BeforeValue,
            Self::BeforeName | Self::Name | Self::AfterName => Self::Name,
        }
    }
}
