//! Fields of items in lists, cut to a length that a page of them can have. What is cut is named in
//! `truncated`; the item by itself has it whole.

/// Bytes of a line: a title, an address, a name.
pub(super) const LINE: usize = 2_000;
/// Bytes of a text: a summary, the content of an entry.
pub(super) const TEXT: usize = 50_000;
/// Items of a list inside an item.
const ITEMS: usize = 100;

/// Cuts the fields of an item.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// The names of those that were cut.
    pub(super) fields: Vec<String>,
}

impl Cut {
    pub(super) fn text(&mut self, name: &str, most: usize, text: &mut String) {
        if text.len() > most {
            text.truncate(text.floor_char_boundary(most));
            text.push('…');
            // The rest must not be held until the page is written.
            text.shrink_to_fit();
            self.note(name);
        }
    }

    pub(super) fn maybe(&mut self, name: &str, most: usize, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(name, most, text);
        }
    }

    pub(super) fn list<T>(
        &mut self,
        name: &str,
        list: &mut Vec<T>,
        mut each: impl FnMut(&mut Self, &mut T),
    ) {
        if list.len() > ITEMS {
            list.truncate(ITEMS);
            self.note(name);
        }
        list.iter_mut().for_each(|item| each(self, item));
    }

    fn note(&mut self, name: &str) {
        if !self.fields.iter().any(|field| field == name) {
            self.fields.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_and_named_once() {
        let (mut cut, mut title) = (Cut::default(), "ä".repeat(LINE));
        cut.text("title", LINE, &mut title);
        assert_eq!((title.len(), title.ends_with('…')), (LINE + '…'.len_utf8(), true));
        let mut tags = vec!["x".repeat(3 * LINE); 1_000];
        cut.list("tags", &mut tags, |cut, tag| cut.text("tags", LINE, tag));
        assert_eq!((tags.len(), tags[0].len()), (ITEMS, LINE + '…'.len_utf8()));
        let mut short = Some("short".to_owned());
        cut.maybe("summary", TEXT, &mut short);
        assert_eq!(
            (short.as_deref(), cut.fields),
            (Some("short"), vec!["title".into(), "tags".into()])
        );
    }
}
