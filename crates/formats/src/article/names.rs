//! What the names that authors give to elements say about their content.
//!
//! Class and id are split into words, and words are compared whole: `article-body` is a body,
//! `header-image` no header, `shareholders` no share bar. A name is a hint, never a verdict: an
//! element that holds the article stays, whatever it is called.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What the names of one element say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    /// The body of an article.
    pub body: bool,
    /// Never part of an article: comments, navigation, teasers, consent.
    pub apart: bool,
    /// Seldom part of an article: boxes, advertising, sign-up forms, galleries.
    pub aside: bool,
    /// Facts about the article when short: byline, date, tags, credits.
    pub facts: bool,
    /// Not shown.
    pub hidden: bool,
}

/// Comments, navigation, teasers, consent.
const APART: &str = "\
    also-read breadcrumb breadcrumbs cmp colophon comentarios comment commentaires commentlist \
    comments consent cookie cookies discussion disqus footer gdpr kommentar kommentare livefyre \
    masthead menu menus more-articles more-from more-news more-on more-stories most-read nav \
    navbar navigation next-article next-post onetrust outbrain pager pagination read-also \
    read-more read-next readmore recent-posts recirc recirculation recommendation \
    recommendations recommended relacionados related respond see-also sidebar site-footer \
    site-header sitemap skip-link skip-to taboola teaser teasers toc trending up-next upnext \
    verwandt yarpp you-may";
/// Boxes, advertising, sign-up forms, galleries.
const ASIDE: &str = "\
    ad addtoany ads advert advertisement advertising adverts affiliate anzeige aside banner \
    call-out carousel compartir cta dfp donate donation follow-us gallery lightbox login modal \
    newsletter newsletters opt-in optin overlay partager player pop-up popular popup promo \
    promos promotion publicidad publicite pull-quote pullquote rail share sharebar sharedaddy \
    sharing sign-in sign-up signup slideshow social socials sponsor sponsored subscribe \
    subscription teilen toolbar werbung widget widgets";
/// Byline, date, tags, credits.
const FACTS: &str = "\
    author authors autor bio byline caption cat-links categories contributor copyright credit \
    credits date dateline disclaimer eyebrow kicker meta metadata pubdate published read-time \
    reading-time schlagworte tag-links tag-list tags timestamp topics updated";
/// The body of an article.
const BODY: &str = "\
    article-body article-content article-copy article-main article-text articlebody \
    articlecontent articletext blog-content body-content body-copy body-text bodytext \
    content-body content-text entry-body entry-content entrycontent field-body full-text \
    fulltext name-body news-body news-content news-text page-content post-body post-content \
    post-text postbody postcontent prose rich-text richtext single-content story-body \
    story-content story-text storybody storycontent text-body text-content wysiwyg";
/// A part of what is called a body, not the body.
const PART: &str = "\
    header image media subtitle title";
/// A name that starts so speaks of the layout around the element.
const LAYOUT: &str = "\
    elementor has js layout no show with without";
/// Whole names of what is not shown.
const HIDDEN: &str = "\
    d-none hidden hide invisible is-hidden noprint offscreen print-only screen-reader-text \
    sr-only visually-hidden visuallyhidden";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Apart,
    Aside,
    Facts,
    Body,
    Part,
    Layout,
    Hidden,
}

const LISTS: [(&str, Kind); 7] = [
    (APART, Kind::Apart),
    (ASIDE, Kind::Aside),
    (FACTS, Kind::Facts),
    (BODY, Kind::Body),
    (PART, Kind::Part),
    (LAYOUT, Kind::Layout),
    (HIDDEN, Kind::Hidden),
];

/// Every listed word, and every listed pair of words with a hyphen between them.
static LEXICON: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
    let entries = LISTS.iter().map(|(list, kind)| list.split(' ').map(|word| (word, *kind)));
    entries.flatten().collect()
});

/// Reads the names of an element.
pub(super) fn judge(class: &str, id: &str) -> Hints {
    let mut hints = Hints::default();
    // Utility classes such as `hidden md:block` show the element to most readers.
    let shown_by_size = class.contains(":block") || class.contains(":flex");
    for name in class.split_ascii_whitespace().chain(id.split_ascii_whitespace()).take(24) {
        hints.hidden |= !shown_by_size && LEXICON.get(name) == Some(&Kind::Hidden);
        let words = split(name);
        let kind_of = |text: &str| LEXICON.get(text).copied();
        if words.first().and_then(|first| kind_of(first)) == Some(Kind::Layout) {
            continue;
        }
        let mut kinds: Vec<Kind> = words.iter().filter_map(|word| kind_of(word)).collect();
        kinds.extend(words.windows(2).filter_map(|pair| kind_of(&pair.join("-"))));
        hints.apart |= kinds.contains(&Kind::Apart);
        hints.aside |= kinds.contains(&Kind::Aside);
        hints.facts |= kinds.contains(&Kind::Facts);
        hints.body |= !kinds.is_empty() && kinds.iter().all(|kind| *kind == Kind::Body);
    }
    hints
}

/// The words of a name: `relatedPosts`, `related-posts` and `related__posts` have the same two.
fn split(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars().take(80) {
        if !c.is_alphanumeric() || after_lower && c.is_uppercase() {
            words.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_in_one_list() {
        let words: usize = LISTS.iter().map(|(list, _)| list.split(' ').count()).sum();
        assert_eq!(LEXICON.len(), words);
    }

    #[test]
    fn names_are_compared_by_whole_words() {
        for name in ["article-body", "articleBody", "post__content", "entry-content clearfix"] {
            assert!(judge(name, "").body, "{name}");
        }
        for name in ["header-image", "shareholders", "has-sidebar", "downloads", "navy", "comma"] {
            assert_eq!(judge(name, ""), Hints::default(), "{name}");
        }
        for name in ["related-posts", "commentList comments", "site-footer", "mostRead most-read"] {
            assert!(judge(name, "").apart, "{name}");
        }
        for name in ["ad", "social-share", "newsletterSignup", "ad_slot"] {
            assert!(judge("", name).aside, "{name}");
        }
        assert!(judge("article-body__caption", "").facts);
        assert!(!judge("article-body__caption", "").body);
        assert!(judge("hidden", "").hidden);
        assert!(!judge("hidden md:block", "").hidden);
    }
}
