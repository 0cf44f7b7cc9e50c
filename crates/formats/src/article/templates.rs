//! Text that a page keeps in templates, as blogs of some platforms do: `<script type="text/template">`
//! with the markup that a script puts in its place.
//!
//! It is only looked at when a page shows nothing else, and cleaned like everything else.

/// The page with its templates in the place of their scripts; nothing when there are none.
pub(super) fn unfolded(html: &str) -> Option<String> {
    let mut page = String::with_capacity(html.len());
    let (mut rest, mut found) = (html, false);
    while let Some(script) = next_script(rest) {
        let (before, inside, after) = script;
        page.push_str(before.0);
        if is_template(before.1) {
            found = true;
            page.push_str("<div>");
            page.push_str(inside);
            page.push_str("</div>");
        }
        rest = after;
    }
    page.push_str(rest);
    found.then_some(page)
}

/// What stands before the next script and its own tag, what is in it, and what follows it.
fn next_script(html: &str) -> Option<((&str, &str), &str, &str)> {
    let start = find(html, "<script")?;
    let (before, script) = html.split_at_checked(start)?;
    let (tag, body) = script.split_once('>')?;
    let (inside, end) = body.split_at_checked(find(body, "</script")?)?;
    let (_, after) = end.split_once('>')?;
    Some(((before, tag), inside, after))
}

fn find(text: &str, ascii: &str) -> Option<usize> {
    let (text, wanted) = (text.as_bytes(), ascii.as_bytes());
    memchr::memchr_iter(b'<', text).find(|at| {
        let found = text.get(*at..at + wanted.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(wanted))
    })
}

fn is_template(tag: &str) -> bool {
    let tag = tag.to_ascii_lowercase();
    ["text/template", "text/x-template"].iter().any(|kind| tag.contains(kind))
}

#[cfg(test)]
mod tests {
    use super::super::{Evidence, NotArticle, extract};
    use super::*;

    #[test]
    fn templates_take_the_place_of_their_scripts() {
        let page =
            "<p>a</p><SCRIPT>x</SCRIPT><b>b</b><script type='text/template'> <i>c</i> </script>d";
        assert_eq!(unfolded(page).unwrap(), "<p>a</p><b>b</b><div> <i>c</i> </div>d");
        for page in ["", "<p>a</p>", "<script>x</script>", "<script type=text/template>open"] {
            assert_eq!(unfolded(page), None, "{page}");
        }
    }

    #[test]
    fn a_page_whose_text_is_a_template_is_an_article() {
        let text = "The council met on Monday and talked for long about the new bridge. ".repeat(6);
        let page = |kind: &str| {
            format!(
                "<html><head><title>Bridge</title></head><body><h1>Bridge</h1><div itemprop=articleBody>\
                 <script type='{kind}'><p>{text}</p><p>{text}</p><script>alert(1)</script></div></body></html>"
            )
        };
        let read = |html: &str| extract(html, "https://a.example/1", &Evidence::default());
        let found = read(&page("text/template")).unwrap();
        assert!(found.text.starts_with("The council met"), "{}", found.text);
        assert!(!found.html.contains("alert"), "{}", found.html);
        assert!(matches!(read(&page("text/javascript")), Err(NotArticle::Empty)));
    }
}
