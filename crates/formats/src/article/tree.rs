//! The tree of an HTML document, as browsers build it, in one growing table.
//!
//! html5ever reads and decides; this keeps. What a page costs is counted while it is read, step by
//! step (`budget`), so that no page, however made, costs more than its bounds.

use std::borrow::Cow;
use std::cell::{Ref, RefCell};

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, LocalName, QualName, local_name, ns};

use super::budget::{self, Budget, MAX_NODES};

/// The most attributes of one element. `<html>` and `<body>` may be repeated to add some.
const MAX_ELEMENT_ATTRIBUTES: usize = 400;

/// A place in the table.
pub(crate) type Id = usize;

/// What a node is.
#[derive(Debug)]
pub(super) enum Data {
    Element { name: QualName, attrs: Vec<Attribute> },
    Text(StrTendril),
    Other,
}

#[derive(Debug)]
struct Node {
    parent: Option<u32>,
    first: Option<u32>,
    last: Option<u32>,
    previous: Option<u32>,
    next: Option<u32>,
    depth: u32,
    data: Data,
}

/// A document.
#[derive(Debug)]
pub(crate) struct Tree(Vec<Node>);

/// The page unfolds into too large a tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbounded;

impl Tree {
    /// Reads a document.
    pub(crate) fn read(html: &str) -> Result<Self, Unbounded> {
        let builder = budget::parse(html, Builder::new(html.len() / 32))?;
        Ok(Self(builder.nodes.into_inner()))
    }

    /// Reads a piece of a document; nothing when it is out of bounds.
    pub(super) fn piece(html: &str) -> Self {
        Self::read(html).unwrap_or(Self(Vec::new()))
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.0.get(id)
    }

    /// How many nodes there are; ids are below.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What a node is.
    pub(super) fn data(&self, id: Id) -> &Data {
        self.node(id).map_or(&Data::Other, |node| &node.data)
    }

    /// The name of an element.
    pub(crate) fn name(&self, id: Id) -> Option<&LocalName> {
        match self.data(id) {
            Data::Element { name, .. } => Some(&name.local),
            _ => None,
        }
    }

    /// An attribute of an element.
    pub(crate) fn attr(&self, id: Id, wanted: &LocalName) -> Option<&str> {
        match self.data(id) {
            Data::Element { attrs, .. } => attribute(attrs, wanted),
            _ => None,
        }
    }

    pub(super) fn parent(&self, id: Id) -> Option<Id> {
        self.node(id)?.parent.map(widen)
    }

    pub(super) fn first_child(&self, id: Id) -> Option<Id> {
        self.node(id)?.first.map(widen)
    }

    pub(super) fn next_sibling(&self, id: Id) -> Option<Id> {
        self.node(id)?.next.map(widen)
    }

    pub(super) fn previous_sibling(&self, id: Id) -> Option<Id> {
        self.node(id)?.previous.map(widen)
    }

    /// Takes a node out of the document.
    pub(super) fn remove(&mut self, id: Id) {
        unlink(&mut self.0, id);
    }

    pub(super) fn children(&self, id: Id) -> impl Iterator<Item = Id> {
        std::iter::successors(self.first_child(id), |child| self.next_sibling(*child))
    }

    /// The next node in the order of the document inside `root`, with or without the children of
    /// `id`.
    pub(crate) fn following(&self, id: Id, root: Id, inside: bool) -> Option<Id> {
        if inside && let Some(child) = self.first_child(id) {
            return Some(child);
        }
        let mut at = id;
        while at != root {
            if let Some(next) = self.next_sibling(at) {
                return Some(next);
            }
            at = self.parent(at)?;
        }
        None
    }

    /// The `body`, or else the whole document.
    pub(super) fn body(&self) -> Id {
        let html = self.children(0).find(|id| self.name(*id) == Some(&local_name!("html")));
        let body = html.and_then(|html| {
            self.children(html).find(|id| self.name(*id) == Some(&local_name!("body")))
        });
        body.or(html).unwrap_or(0)
    }

    /// What an element looks like in a style sheet: `div#id.class`.
    pub(super) fn selector(&self, id: Id) -> String {
        let mut out = self.name(id).map(|name| name.to_string()).unwrap_or_default();
        if let Some(own) = self.attr(id, &local_name!("id")).filter(|own| !own.contains(' ')) {
            out.push('#');
            out.push_str(own);
        }
        for class in
            self.attr(id, &local_name!("class")).unwrap_or_default().split_whitespace().take(3)
        {
            out.push('.');
            out.push_str(class);
        }
        out
    }

    /// The characters of a text.
    pub(super) fn raw_text(&self, id: Id) -> &str {
        match self.data(id) {
            Data::Text(text) => text,
            _ => "",
        }
    }

    /// The text in an element with its lines as they are.
    pub(super) fn text_as_is(&self, root: Id) -> String {
        let inner = std::iter::successors(Some(root), |id| self.following(*id, root, true));
        inner.map(|id| self.raw_text(id)).collect()
    }

    /// The text in an element in one line, at most so many bytes of it; a `gap` parts what
    /// different elements say.
    pub(crate) fn text(&self, root: Id, most: usize, gap: bool) -> String {
        let mut out = String::new();
        let (mut at, mut space) = (Some(root), false);
        while let Some(id) = at {
            let mut inside = true;
            match self.data(id) {
                Data::Text(text) => {
                    for c in text.chars() {
                        if c.is_whitespace() {
                            space = true;
                            continue;
                        }
                        if std::mem::take(&mut space) && !out.is_empty() {
                            out.push(' ');
                        }
                        out.push(c);
                        if out.len() >= most {
                            return out;
                        }
                    }
                }
                Data::Element { name, .. } => {
                    space |= gap || matches!(name.local, local_name!("br"));
                    inside = !matches!(name.local, local_name!("script") | local_name!("style"));
                }
                Data::Other => {}
            }
            at = self.following(id, root, inside);
        }
        out
    }
}

/// The value of an attribute.
pub(super) fn attribute<'a>(attrs: &'a [Attribute], wanted: &LocalName) -> Option<&'a str> {
    attrs.iter().find(|attr| attr.name.local == *wanted).map(|attr| &*attr.value)
}

fn widen(id: u32) -> Id {
    usize::try_from(id).unwrap_or(usize::MAX)
}

fn narrow(id: Id) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}

/// What html5ever builds into.
pub(super) struct Builder {
    nodes: RefCell<Vec<Node>>,
    nameless: RefCell<QualName>,
    pub(super) budget: Budget,
}

impl Builder {
    fn new(expected: usize) -> Self {
        let builder = Self {
            nodes: RefCell::new(Vec::with_capacity(expected.min(MAX_NODES))),
            nameless: RefCell::new(QualName::new(None, ns!(), local_name!(""))),
            budget: Budget::default(),
        };
        builder.add(Data::Other);
        builder
    }

    fn add(&self, data: Data) -> Id {
        let mut nodes = self.nodes.borrow_mut();
        self.budget.node();
        nodes.push(Node {
            parent: None,
            first: None,
            last: None,
            previous: None,
            next: None,
            depth: 0,
            data,
        });
        nodes.len() - 1
    }

    /// Whether a node is an element with such a name.
    pub(super) fn is_named(&self, id: Id, is_such: impl Fn(&LocalName) -> bool) -> bool {
        match self.nodes.borrow().get(id).map(|node| &node.data) {
            Some(Data::Element { name, .. }) => is_such(&name.local),
            _ => false,
        }
    }

    fn look<T>(&self, id: Id, what: impl Fn(&Node) -> Option<T>) -> Option<T> {
        self.nodes.borrow().get(id).and_then(what)
    }

    /// Adds to a text that is already there.
    fn extend(&self, id: Option<Id>, more: &StrTendril) -> bool {
        let mut nodes = self.nodes.borrow_mut();
        match id.and_then(|id| nodes.get_mut(id)).map(|node| &mut node.data) {
            Some(Data::Text(text)) => {
                text.push_tendril(more);
                true
            }
            _ => false,
        }
    }

    /// Puts a node that stands nowhere before another, or last.
    fn attach(&self, id: Id, parent: Id, before: Option<Id>) {
        let mut nodes = self.nodes.borrow_mut();
        let depth = nodes.get(parent).map_or(0, |node| node.depth).saturating_add(1);
        self.budget.depth(depth);
        let previous = match before {
            Some(before) => nodes.get(before).and_then(|node| node.previous),
            None => nodes.get(parent).and_then(|node| node.last),
        };
        if let Some(node) = nodes.get_mut(id) {
            node.parent = Some(narrow(parent));
            node.previous = previous;
            node.next = before.map(narrow);
            node.depth = depth;
        }
        // The contents of a template stand outside of the document, but as deep.
        if nodes.get(id).is_some_and(|node| is_template(&node.data))
            && let Some(contents) = nodes.get_mut(id + 1)
        {
            contents.depth = depth;
        }
        match previous.and_then(|previous| nodes.get_mut(widen(previous))) {
            Some(node) => node.next = Some(narrow(id)),
            None => {
                if let Some(node) = nodes.get_mut(parent) {
                    node.first = Some(narrow(id));
                }
            }
        }
        match before.and_then(|before| nodes.get_mut(before)) {
            Some(node) => node.previous = Some(narrow(id)),
            None => {
                if let Some(node) = nodes.get_mut(parent) {
                    node.last = Some(narrow(id));
                }
            }
        }
    }

    fn detach(&self, id: Id) {
        unlink(&mut self.nodes.borrow_mut(), id);
    }
}

fn is_template(data: &Data) -> bool {
    matches!(data, Data::Element { name, .. } if name.local == local_name!("template") && name.ns == ns!(html))
}

/// Takes a node out of where it stands.
fn unlink(nodes: &mut [Node], id: Id) {
    let Some(node) = nodes.get_mut(id) else { return };
    let (parent, previous, next) = (node.parent.take(), node.previous.take(), node.next.take());
    match previous.and_then(|previous| nodes.get_mut(widen(previous))) {
        Some(node) => node.next = next,
        None => {
            if let Some(node) = parent.and_then(|parent| nodes.get_mut(widen(parent))) {
                node.first = next;
            }
        }
    }
    match next.and_then(|next| nodes.get_mut(widen(next))) {
        Some(node) => node.previous = previous,
        None => {
            if let Some(node) = parent.and_then(|parent| nodes.get_mut(widen(parent))) {
                node.last = previous;
            }
        }
    }
}

impl TreeSink for Builder {
    type Handle = Id;
    type Output = Self;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Id {
        0
    }

    fn elem_name<'a>(&'a self, target: &'a Id) -> Ref<'a, QualName> {
        self.budget.step();
        let name = Ref::filter_map(self.nodes.borrow(), |nodes| match &nodes.get(*target)?.data {
            Data::Element { name, .. } => Some(name),
            _ => None,
        });
        name.unwrap_or_else(|_| self.nameless.borrow())
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Id {
        self.budget.attributes(attrs.len());
        let id = self.add(Data::Element { name, attrs });
        if flags.template {
            // The contents of a template stand outside of the document, right behind it.
            self.add(Data::Other);
        }
        id
    }

    fn create_comment(&self, _: StrTendril) -> Id {
        self.add(Data::Other)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Id {
        self.add(Data::Other)
    }

    fn append(&self, parent: &Id, child: NodeOrText<Id>) {
        match child {
            NodeOrText::AppendNode(id) => self.attach(id, *parent, None),
            NodeOrText::AppendText(text) => {
                let last = self.look(*parent, |node| node.last.map(widen));
                if !self.extend(last, &text) {
                    let id = self.add(Data::Text(text));
                    self.attach(id, *parent, None);
                }
            }
        }
    }

    fn append_based_on_parent_node(&self, element: &Id, previous: &Id, child: NodeOrText<Id>) {
        if self.look(*element, |node| node.parent).is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Id) -> Id {
        target + 1
    }

    fn same_node(&self, one: &Id, other: &Id) -> bool {
        self.budget.step();
        one == other
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Id, child: NodeOrText<Id>) {
        let Some(parent) = self.look(*sibling, |node| node.parent.map(widen)) else { return };
        let id = match child {
            NodeOrText::AppendNode(id) => id,
            NodeOrText::AppendText(text) => {
                let previous = self.look(*sibling, |node| node.previous.map(widen));
                if self.extend(previous, &text) {
                    return;
                }
                self.add(Data::Text(text))
            }
        };
        self.detach(id);
        self.attach(id, parent, Some(*sibling));
    }

    fn add_attrs_if_missing(&self, target: &Id, attrs: Vec<Attribute>) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(Data::Element { attrs: own, .. }) =
            nodes.get_mut(*target).map(|node| &mut node.data)
        {
            self.budget.steps(own.len() * attrs.len());
            let missing: Vec<_> = attrs
                .into_iter()
                .filter(|new| own.iter().all(|old| old.name != new.name))
                .take(MAX_ELEMENT_ATTRIBUTES.saturating_sub(own.len()))
                .collect();
            self.budget.attributes(missing.len());
            own.extend(missing);
        }
    }

    fn remove_from_parent(&self, target: &Id) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &Id, new_parent: &Id) {
        while let Some(child) = self.look(*node, |node| node.first.map(widen)) {
            self.budget.step();
            self.detach(child);
            self.attach(child, *new_parent, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str) -> String {
        let tree = Tree::read(html).unwrap();
        tree.text(tree.body(), 1_000, true)
    }

    #[test]
    fn the_tree_is_that_of_browsers() {
        assert_eq!(text("<p>a<p>b<b>c<p>d</b>e"), "a b c de");
        assert_eq!(text("<table>x<tr><td>y</table>z"), "x yz");
        assert_eq!(text("<template><p>no</p></template>yes"), "yes");
        assert_eq!(text("<a>1<div>2<a>3</div>4"), "1 2 3 4");
        assert_eq!(text("<head><title>t</title></head>b<body class=x>c"), "bc");
        let tree = Tree::read("<body id=a><body id=b class=c>").unwrap();
        assert_eq!(tree.attr(tree.body(), &local_name!("id")), Some("a"));
        assert_eq!(tree.attr(tree.body(), &local_name!("class")), Some("c"));
    }

    #[test]
    fn ordinary_pages_pass() {
        let row = "<tr><td><div class=a><p>text <b>bold</b> <a href=/>link</a><br></div>";
        let table = format!("<table>{}</table>", row.repeat(10_000));
        let script = format!("<script>{}</script>", "document.write('<div>');".repeat(100_000));
        let data = format!("<img src='data:image/png;base64,{}'>", "A ".repeat(50_000));
        for html in [table, script, data, "<div>".repeat(1_400), "a < b </ <".to_owned()] {
            assert!(Tree::read(&html).is_ok());
        }
    }

    #[test]
    fn what_repeats_for_attributes_is_cut() {
        for name in ["html", "body"] {
            let html: String = (0..20_000).map(|n| format!("<{name} a{n}>")).collect();
            let tree = Tree::read(&html).unwrap();
            let id = if name == "body" { tree.body() } else { tree.parent(tree.body()).unwrap() };
            let Data::Element { attrs, .. } = tree.data(id) else { panic!("{name}") };
            assert_eq!(attrs.len(), MAX_ELEMENT_ATTRIBUTES);
        }
        let html =
            format!("<p id=x {}>y", (0..3_000).map(|n| format!("a{n} ")).collect::<String>());
        let tree = Tree::read(&html).unwrap();
        let p = tree.first_child(tree.body()).unwrap();
        assert_eq!(tree.attr(p, &local_name!("id")), Some("x"));
    }

    #[test]
    fn bombs_do_not() {
        let fonts: String = (0..500).map(|n| format!("<font color={n}>")).collect();
        let attributes: String = (0..100_000).map(|n| format!(" a{n}")).collect();
        let quoted: String = (0..100_000).map(|n| format!(" a{n}='<>'")).collect();
        let many: String = (0..40).map(|n| format!(" a{n}")).collect();
        let compared: String = (0..1_400).map(|n| format!("<b id={n}{many}>")).collect();
        for html in [
            "<div>".repeat(100_000),
            format!("{fonts}{}", "<p>x".repeat(100_000)),
            "<br>".repeat(1_000_000),
            format!("<div{attributes}>"),
            format!("<div{quoted}>"),
            "<template>".repeat(10_000),
            compared,
        ] {
            assert_eq!(Tree::read(&html).err(), Some(Unbounded));
        }
    }
}
