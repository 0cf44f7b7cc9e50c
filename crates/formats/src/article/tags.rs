//! What the names of elements mean to a reader of articles.

use html5ever::{LocalName, local_name};

/// What a walk does with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Dropped with all it holds.
    Skipped,
    /// Does not interrupt a run of text.
    Inline { link: bool, bold: bool, time: bool },
    /// Ends a line.
    Break,
    /// Ends a run of text, and holds none.
    Rule,
    /// Starts and ends runs of text.
    Block(Tag),
}

/// Elements that something is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    P,
    H1,
    H2,
    H3,
    H4,
    H5,
    H6,
    Li,
    Td,
    Tr,
    Div,
    Figcaption,
    Blockquote,
    Pre,
    Dd,
    Dt,
    Section,
    Article,
    Header,
    Main,
    Aside,
    Footer,
    Nav,
    Figure,
    Form,
    Table,
    List,
    Details,
    Body,
    Other,
}

/// What an element is for, by its tag or its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sem {
    Article,
    Main,
    Aside,
    Header,
    Footer,
    Nav,
    Figure,
    Form,
    Table,
    List,
    Blockquote,
    Section,
    Details,
}

impl Sem {
    pub(super) const ALL: [Self; 13] = [
        Self::Article,
        Self::Main,
        Self::Aside,
        Self::Header,
        Self::Footer,
        Self::Nav,
        Self::Figure,
        Self::Form,
        Self::Table,
        Self::List,
        Self::Blockquote,
        Self::Section,
        Self::Details,
    ];

    pub(super) fn of_role(role: &str) -> Option<Self> {
        match role {
            "main" => Some(Self::Main),
            "article" => Some(Self::Article),
            "navigation" | "menu" => Some(Self::Nav),
            "complementary" => Some(Self::Aside),
            "contentinfo" => Some(Self::Footer),
            _ => None,
        }
    }
}

impl Tag {
    /// What it is for.
    pub(super) const fn sem(self) -> Option<Sem> {
        Some(match self {
            Self::Article => Sem::Article,
            Self::Main => Sem::Main,
            Self::Aside => Sem::Aside,
            Self::Header => Sem::Header,
            Self::Footer => Sem::Footer,
            Self::Nav => Sem::Nav,
            Self::Figure => Sem::Figure,
            Self::Form => Sem::Form,
            Self::Table => Sem::Table,
            Self::List => Sem::List,
            Self::Blockquote => Sem::Blockquote,
            Self::Section => Sem::Section,
            Self::Details => Sem::Details,
            _ => return None,
        })
    }

    /// Its number in the features of a block.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::P => 0,
            Self::H1 => 1,
            Self::H2 => 2,
            Self::H3 => 3,
            Self::H4 | Self::H5 | Self::H6 => 4,
            Self::Li => 5,
            Self::Td => 6,
            Self::Div => 7,
            Self::Figcaption => 8,
            Self::Blockquote => 9,
            Self::Pre => 10,
            Self::Dd | Self::Dt => 11,
            Self::Section => 12,
            Self::Article => 13,
            Self::Header => 14,
            _ => 16,
        }
    }

    /// The level of a heading.
    pub(super) const fn level(self) -> Option<usize> {
        Some(match self {
            Self::H1 => 1,
            Self::H2 => 2,
            Self::H3 => 3,
            Self::H4 => 4,
            Self::H5 => 5,
            Self::H6 => 6,
            _ => return None,
        })
    }
}

const PLAIN: Kind = Kind::Inline { link: false, bold: false, time: false };

/// What a walk does with an element of that name.
pub(super) fn kind(name: &LocalName) -> Kind {
    match *name {
        local_name!("div") => Kind::Block(Tag::Div),
        local_name!("a") => Kind::Inline { link: true, bold: false, time: false },
        local_name!("p") => Kind::Block(Tag::P),
        local_name!("span") => PLAIN,
        local_name!("li") => Kind::Block(Tag::Li),
        local_name!("ul") | local_name!("ol") => Kind::Block(Tag::List),
        local_name!("b") | local_name!("strong") | local_name!("em") | local_name!("i") => {
            Kind::Inline { link: false, bold: true, time: false }
        }
        local_name!("time") => Kind::Inline { link: false, bold: false, time: true },
        local_name!("br") => Kind::Break,
        local_name!("hr") => Kind::Rule,
        local_name!("h1") => Kind::Block(Tag::H1),
        local_name!("h2") => Kind::Block(Tag::H2),
        local_name!("h3") => Kind::Block(Tag::H3),
        local_name!("h4") => Kind::Block(Tag::H4),
        local_name!("h5") => Kind::Block(Tag::H5),
        local_name!("h6") => Kind::Block(Tag::H6),
        local_name!("td") | local_name!("th") => Kind::Block(Tag::Td),
        local_name!("tr") => Kind::Block(Tag::Tr),
        local_name!("figcaption") => Kind::Block(Tag::Figcaption),
        local_name!("blockquote") => Kind::Block(Tag::Blockquote),
        local_name!("pre") => Kind::Block(Tag::Pre),
        local_name!("dd") => Kind::Block(Tag::Dd),
        local_name!("dt") => Kind::Block(Tag::Dt),
        local_name!("section") => Kind::Block(Tag::Section),
        local_name!("article") => Kind::Block(Tag::Article),
        local_name!("header") => Kind::Block(Tag::Header),
        local_name!("main") => Kind::Block(Tag::Main),
        local_name!("aside") => Kind::Block(Tag::Aside),
        local_name!("footer") => Kind::Block(Tag::Footer),
        local_name!("nav") => Kind::Block(Tag::Nav),
        local_name!("figure") => Kind::Block(Tag::Figure),
        local_name!("form") => Kind::Block(Tag::Form),
        local_name!("table") => Kind::Block(Tag::Table),
        local_name!("details") | local_name!("summary") => Kind::Block(Tag::Details),
        _ if is_skipped(name) => Kind::Skipped,
        _ if is_inline(name) => PLAIN,
        _ => Kind::Block(Tag::Other),
    }
}

fn is_skipped(name: &LocalName) -> bool {
    matches!(
        &**name,
        "applet"
            | "audio"
            | "button"
            | "canvas"
            | "datalist"
            | "dialog"
            | "embed"
            | "frame"
            | "frameset"
            | "head"
            | "iframe"
            | "img"
            | "input"
            | "link"
            | "map"
            | "math"
            | "meta"
            | "meter"
            | "noscript"
            | "object"
            | "option"
            | "progress"
            | "script"
            | "select"
            | "source"
            | "style"
            | "svg"
            | "template"
            | "textarea"
            | "title"
            | "track"
            | "video"
    )
}

fn is_inline(name: &LocalName) -> bool {
    matches!(
        &**name,
        "abbr"
            | "acronym"
            | "picture"
            | "bdi"
            | "bdo"
            | "big"
            | "cite"
            | "code"
            | "data"
            | "del"
            | "dfn"
            | "font"
            | "ins"
            | "kbd"
            | "label"
            | "mark"
            | "nobr"
            | "q"
            | "rb"
            | "rp"
            | "rt"
            | "ruby"
            | "s"
            | "samp"
            | "small"
            | "strike"
            | "sub"
            | "sup"
            | "tt"
            | "u"
            | "var"
            | "wbr"
    )
}
