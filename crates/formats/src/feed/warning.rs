//! What was wrong with a feed and did not prevent reading, so that operators can tell publishers.

use serde::Serialize;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    BadCharacters,
    CharsetConflict,
    ControlCharacters,
    UnknownEncoding,
    BareAmpersand,
    BareBracket,
    HtmlEntity,
    UnknownEntity,
    BeforeProlog,
    AfterRoot,
    MissingVersion,
    UndeclaredPrefix,
    UnknownNamespace,
    BadDate,
    OddDate,
    BadUrl,
    BadNumber,
    BadValue,
    BadJson,
    BadItem,
    BadEnclosure,
    BadType,
    DuplicateId,
    MissingId,
    Truncated,
    Unclosed,
    TextCut,
    TooManyItems,
    TooManyParts,
}

impl Fault {
    /// The stable name, and what the publisher should do.
    const fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::BadCharacters => {
                ("bad_characters", "some bytes are not valid in the document's encoding")
            }
            Self::CharsetConflict => {
                ("charset_conflict", "header, XML declaration and bytes name different encodings")
            }
            Self::ControlCharacters => {
                ("control_characters", "XML allows no control characters: leave them out")
            }
            Self::UnknownEncoding => {
                ("unknown_encoding", "nobody knows the encoding that the XML declaration names")
            }
            Self::BareAmpersand => ("bare_ampersand", "write `&amp;` for `&`"),
            Self::BareBracket => ("bare_bracket", "write `&lt;` for `<`"),
            Self::HtmlEntity => {
                ("html_entity", "XML does not know HTML's entities: write the character itself")
            }
            Self::UnknownEntity => ("unknown_entity", "nobody knows this entity"),
            Self::BeforeProlog => {
                ("before_prolog", "nothing may stand before the XML declaration or the root")
            }
            Self::AfterRoot => ("after_root", "nothing may stand behind the end of the feed"),
            Self::MissingVersion => ("missing_version", "state the version in the root element"),
            Self::UndeclaredPrefix => ("undeclared_prefix", "declare the namespace of this prefix"),
            Self::UnknownNamespace => {
                ("unknown_namespace", "the elements of a feed have no namespace, or Atom's")
            }
            Self::BadDate => ("bad_date", "write dates as RFC 822 (RSS) or RFC 3339 (Atom) says"),
            Self::OddDate => (
                "odd_date",
                "this date was read leniently: write RFC 822 (RSS) or RFC 3339 (Atom, JSON)",
            ),
            Self::BadUrl => ("bad_url", "this is no address that can be followed"),
            Self::BadNumber => ("bad_number", "this should be a number"),
            Self::BadValue => ("bad_value", "this is none of the words that may stand here"),
            Self::BadJson => ("bad_json", "this is no valid JSON and was mended"),
            Self::BadItem => ("bad_item", "this item cannot be read and was left out"),
            Self::BadEnclosure => ("bad_enclosure", "an enclosure has a url, a type and a length"),
            Self::BadType => ("bad_type", "this field should be of another type"),
            Self::DuplicateId => ("duplicate_id", "every entry needs an id of its own"),
            Self::MissingId => ("missing_id", "give every entry an id that never changes"),
            Self::Truncated => ("truncated", "the document ends too early"),
            Self::Unclosed => ("unclosed", "this element is not closed, or closed by another name"),
            Self::TextCut => ("text_cut", "this text is too long and was cut"),
            Self::TooManyItems => ("too_many_items", "there are more entries than are read"),
            Self::TooManyParts => {
                ("too_many_parts", "there are more of these in one place than are kept")
            }
        }
    }
}

/// Something that was wrong and did not prevent reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The stable name of what was wrong.
    pub code: &'static str,
    /// What the publisher should know.
    pub message: &'static str,
    /// The first case, in short.
    pub detail: String,
    /// How often.
    pub count: u32,
}

/// Notes a fault that occurred so many times: one line for each kind, however often it occurs.
pub(super) fn note(warnings: &mut Vec<Warning>, fault: Fault, detail: &str, times: u32) {
    let (code, message) = fault.told();
    match warnings.iter_mut().find(|known| known.code == code) {
        Some(known) => known.count = known.count.saturating_add(times),
        None if times > 0 => {
            let detail = detail.chars().take(100).collect();
            warnings.push(Warning { code, message, detail, count: times });
        }
        None => {}
    }
}
