//! What a page would cost to parse, told from its tags alone.
//!
//! An HTML tree can be far larger than its text: every start tag looks through the elements that
//! are still open, and formatting that is never closed is copied into every paragraph after it.
//! Pages that do so by accident are cheap; this keeps those out that do it without bounds. It must
//! never refuse a page that a browser shows without effort.

/// Steps that a page may cost: half a second at worst, some hundred times what pages cost.
const MAX_COST: u64 = 50_000_000;
/// A copied element costs so many times what a look at an open one does.
const COPY: u64 = 16;

/// Elements that never stay open: void ones, and those that the next of their kind closes.
const CLOSED: &[&str] = &[
    "a", "area", "base", "body", "br", "button", "col", "dd", "dt", "embed", "head", "hr", "html",
    "img", "input", "li", "link", "meta", "nobr", "optgroup", "option", "p", "param", "rp", "rt",
    "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
];
/// Elements that are opened again in every paragraph until they are closed.
const FORMATTING: &[&str] =
    &["b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"];
/// Elements whose content is no markup.
const RAW: &[&str] = &["script", "style", "textarea", "title"];

/// Whether the page can be parsed within bounds.
pub(super) fn is_affordable(html: &str) -> bool {
    let mut cost = 0_u64;
    let (mut open, mut formatting) = (0_u64, 0_u64);
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        let (closing, tail) = after.strip_prefix('/').map_or((false, after), |tail| (true, tail));
        let name = tag_name(tail);
        if name.is_empty() || CLOSED.contains(&name.as_str()) {
            cost += u64::from(!name.is_empty()) * (open + COPY * formatting);
        } else if closing {
            open = open.saturating_sub(1);
            formatting = formatting.saturating_sub(u64::from(is_in(&name, FORMATTING)));
        } else {
            cost += open + COPY * formatting;
            if is_in(&name, RAW) {
                rest = skip_raw(tail, &name);
            } else {
                open += 1;
                formatting += u64::from(is_in(&name, FORMATTING));
            }
        }
        if cost > MAX_COST {
            return false;
        }
    }
    true
}

fn is_in(name: &str, list: &[&str]) -> bool {
    list.contains(&name)
}

/// The tag's name in lower case; no name that matters is longer than ten letters.
fn tag_name(text: &str) -> String {
    let letters = text.bytes().take(10).take_while(u8::is_ascii_alphanumeric);
    letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}

/// What follows the end tag of an element without markup inside.
fn skip_raw<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        if tag_name(after) == name {
            return after;
        }
        rest = after;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_pages_pass() {
        let row = "<tr><td><div class=a><p>text <b>bold</b> <a href=/>link</a><br></div>";
        let table = format!("<table>{}</table>", row.repeat(20_000));
        let script = format!("<script>{}</script>", "document.write('<div>');".repeat(100_000));
        assert!(is_affordable(&table));
        assert!(is_affordable(&script));
        assert!(is_affordable(&"<div>".repeat(9_000)));
        assert!(is_affordable("a < b </ <"));
    }

    #[test]
    fn bombs_do_not() {
        assert!(!is_affordable(&"<div>".repeat(100_000)));
        let fonts: String = (0..500).map(|n| format!("<font color={n}>")).collect();
        assert!(!is_affordable(&format!("{fonts}{}", "<p>x".repeat(100_000))));
    }
}
