//! What classes, ids and addresses of a page's elements say.
//!
//! Publishers name their elements after what they hold, in English more often than not. The names
//! are matched in one pass against lists of fragments; what they mean is for the model to weigh, so
//! nothing here decides anything.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// No more of a class and an id is looked at.
const MAX_NAME: usize = 300;

/// What a name speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    Share,
    Related,
    Comment,
    Nav,
    Footer,
    Side,
    Ad,
    News,
    Author,
    Meta,
    Caption,
    Tags,
    Cookie,
    Header,
    Lead,
    Body,
    Cont,
    List,
    Hide,
    Box,
    Ref,
    Dated,
}

/// How many marks are features of a block.
pub(super) const MARKS: usize = 21;

/// The fragments of each mark. `~` at an end stands for "no letter there".
const FRAGMENTS: [(Mark, &str); MARKS + 1] = [
    (
        Mark::Share,
        "share social sharing addtoany sharedaddy facebook twitter whatsapp follow- follow_ teilen \
         compart partag condivid",
    ),
    (
        Mark::Related,
        "related recommend read-more readmore read-next more-from more-stories morefrom also- \
         see-also you-may trending popular most-read mostread suggest outbrain taboola latest \
         upnext up-next similar verwandt teaser promo- next-article further onward inline-links \
         yarpp crp_ -also relacionad correlat lire-aussi leia- gerelateerd",
    ),
    (Mark::Comment, "comment disqus respond reply kommentar comentario discussion livefyre"),
    (
        Mark::Nav,
        "~nav menu breadcrumb pagination pager skip- toolbar ~toc~ table-of-contents sitemap crumb",
    ),
    (Mark::Footer, "footer foot copyright colophon imprint legal disclaimer bottom"),
    (
        Mark::Side,
        "sidebar side- aside widget rail right-col rightcol secondary complementary sidecol \
         marginal col-right",
    ),
    (
        Mark::Ad,
        "advert ~ad~ ~ads~ sponsor promo banner dfp gpt adslot adbox affiliate commercial anzeige \
         werbung publicid publicit reklam annonce donat ~cta~ paywall upsell",
    ),
    (
        Mark::News,
        "newsletter boletin nieuwsbrief infolettre subscri signup sign-up mailchimp optin opt-in \
         mc4wp register login membership piano abo-",
    ),
    (Mark::Author, "author byline ~bio~ contributor autor auteur writer profile about-the"),
    (
        Mark::Meta,
        "meta ~date ~time publish posted ~info~ details kicker eyebrow dateline updated readtime \
         reading-time",
    ),
    (
        Mark::Caption,
        "caption credit figure image photo gallery slideshow media video bildunter slider carousel \
         embed player audio",
    ),
    (Mark::Tags, "~tag~ ~tags~ categor topic keyword label cat-links schlagw themen"),
    (
        Mark::Cookie,
        "cookie consent gdpr cmp onetrust privacy modal popup pop-up overlay lightbox dialog \
         notice alert dsgvo",
    ),
    (Mark::Header, "header masthead ~head~ hero ~top~ logo brand title headline"),
    (
        Mark::Lead,
        "lead summary intro dek standfirst abstract excerpt subtitle subhead sub-title description \
         vorspann sapo chapo deck",
    ),
    (
        Mark::Body,
        "article-body articlebody article_body article-content article__body article__content \
         articlecontent article-text articletext entry-content entry_content post-content \
         post-body postcontent post_content post__content story-body storybody story-content \
         story_content body-content content-body content__body richtext rich-text wysiwyg \
         field-name-body field--name-body text-content main-content maincontent body-text bodytext \
         body-copy prose single-content news-content content-text text-body fulltext blog-content \
         page-content entry-body article-main paragraph",
    ),
    (Mark::Cont, "content article post story entry main text body news detail blog"),
    (
        Mark::List,
        "~list~ ~lists~ grid card ~item~ ~items~ tile feed archive slick swiper listing collection \
         loop",
    ),
    (
        Mark::Hide,
        "hidden ~hide sr-only screen-reader visually-hidden visuallyhidden ~print~ invisible \
         d-none offscreen noprint tooltip",
    ),
    (
        Mark::Box,
        "box factbox fact- callout pullquote pull-quote highlight key-point keypoint takeaway \
         sidenote inset panel module",
    ),
    (Mark::Ref, "reference footnote endnote citation biblio quellen ~source~ ~sources~"),
    (Mark::Dated, "date time publish posted byline meta info"),
];

/// The name of each mark that is a feature, in order.
pub(super) const NAMES: [&str; MARKS] = [
    "c_share",
    "c_related",
    "c_comment",
    "c_nav",
    "c_footer",
    "c_side",
    "c_ad",
    "c_news",
    "c_author",
    "c_meta",
    "c_caption",
    "c_tags",
    "c_cookie",
    "c_header",
    "c_lead",
    "c_body",
    "c_cont",
    "c_list",
    "c_hide",
    "c_box",
    "c_ref",
];

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u32);

impl Marks {
    pub(super) const fn of(marks: &[Mark]) -> Self {
        let (mut bits, mut at) = (0, marks);
        while let [first, rest @ ..] = at {
            bits |= 1 << *first as u32;
            at = rest;
        }
        Self(bits)
    }

    pub(super) const fn has(self, mark: Mark) -> bool {
        self.0 >> mark as u32 & 1 == 1
    }

    pub(super) const fn set(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u32;
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the marks that are features.
    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        (0..MARKS).filter(move |number| self.0 >> number & 1 == 1)
    }
}

/// A fragment and where no letter may stand.
struct Fragment {
    mark: Mark,
    bound_before: bool,
    bound_after: bool,
}

static FINDER: LazyLock<(Option<AhoCorasick>, Vec<Fragment>)> = LazyLock::new(|| {
    let mut fragments = Vec::new();
    let mut patterns = Vec::new();
    for (mark, list) in FRAGMENTS {
        for word in list.split_ascii_whitespace() {
            let (bound_before, bound_after) = (word.starts_with('~'), word.ends_with('~'));
            fragments.push(Fragment { mark, bound_before, bound_after });
            patterns.push(word.trim_matches('~'));
        }
    }
    let finder = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(patterns);
    (finder.ok(), fragments)
});

/// What a class and an id say.
pub(super) fn read(class: &str, id: &str) -> Marks {
    let mut marks = Marks::default();
    for name in [class, id] {
        let name = name.as_bytes();
        let name = name.get(..MAX_NAME).unwrap_or(name);
        let Some(finder) = FINDER.0.as_ref() else { return marks };
        for found in finder.find_overlapping_iter(name) {
            let Some(fragment) = FINDER.1.get(found.pattern().as_usize()) else { continue };
            let letter = |at: Option<usize>| {
                at.and_then(|at| name.get(at)).is_some_and(u8::is_ascii_alphabetic)
            };
            if !(fragment.bound_before && letter(found.start().checked_sub(1))
                || fragment.bound_after && letter(Some(found.end())))
            {
                marks.set(fragment.mark);
            }
        }
    }
    marks
}

/// Whether a style makes its element invisible.
pub(super) fn hides(style: &str) -> bool {
    let declared = style.split(';').filter_map(|part| part.split_once(':'));
    declared.map(|(name, value)| (name.trim(), value.trim())).any(|(name, value)| {
        let value = value.split(['!', ' ']).next().unwrap_or_default();
        name.eq_ignore_ascii_case("display") && value.eq_ignore_ascii_case("none")
            || name.eq_ignore_ascii_case("visibility") && value.eq_ignore_ascii_case("hidden")
    })
}

/// Whether a class or id speaks of an author.
pub(super) fn names_author(name: &str) -> bool {
    let name = name.as_bytes();
    let holds = |word: &[u8]| name.windows(word.len()).any(|at| at.eq_ignore_ascii_case(word));
    name.len() >= 5 && (holds(b"author") || holds(b"byline") || holds(b"autor"))
}

/// Parts of addresses that stand before the name of a person.
const PEOPLE: &str = "\
    author authors autor autoren autores auteur auteurs by people person profile profil \
    contributor contributors staff writer writers reporter reporters journalist journalista \
    journalists columnist columnists team bio redaktion expert experts user users member";

/// Whether an address is that of a page about a person.
pub(super) fn leads_to_person(address: &str) -> bool {
    let mut parts = address.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        if (2..=12).contains(&part.len())
            && parts.peek().is_some_and(|next| !next.is_empty())
            && PEOPLE.split_ascii_whitespace().any(|word| part.eq_ignore_ascii_case(word))
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(class: &str) -> Vec<Mark> {
        let found = read(class, "");
        FRAGMENTS.iter().map(|(mark, _)| *mark).filter(|mark| found.has(*mark)).collect()
    }

    #[test]
    fn names_are_read_by_their_fragments() {
        assert_eq!(marks("Article-Body"), [Mark::Body, Mark::Cont]);
        assert_eq!(marks("site-nav"), [Mark::Nav]);
        assert_eq!(marks("renaval"), []);
        assert_eq!(marks("ad"), [Mark::Ad]);
        assert_eq!(marks("shadow"), []);
        assert_eq!(marks("entry-date"), [Mark::Meta, Mark::Cont, Mark::Dated]);
        assert!(FINDER.0.is_some());
        assert_eq!(NAMES.len(), FRAGMENTS.len() - 1);
    }

    #[test]
    fn styles_and_addresses() {
        for style in ["display:none", "color: red; Display : NONE !important", "visibility:hidden"]
        {
            assert!(hides(style), "{style}");
        }
        assert!(!hides("display:block;overflow:hidden"));
        assert!(leads_to_person("https://example.com/Author/jane"));
        for other in ["/author/", "/authors-guild/x", "/by", "mailto:a@b"] {
            assert!(!leads_to_person(other), "{other}");
        }
        assert!(names_author("post-Author") && names_author("byline") && !names_author("auth"));
    }
}
