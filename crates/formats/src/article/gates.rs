//! Pages that are no articles, told by what they hold.
//!
//! A page that asks to prove something, to sign in, or says that it is not there has hardly any
//! text; so only pages with little text are looked at, and a long text about any of these passes.

use super::NotArticle;
use super::clean::fold;
use super::declared::Declared;
use super::outline::Outline;
use super::page::Page;

/// With more words than this in its article, a page is one.
const ENOUGH_WORDS: usize = 120;
/// A page with more words than this is no bare form or notice.
const BARE_WORDS: usize = 250;

/// Names that the makers of challenges give to their scripts and elements.
const CHALLENGES: &[&str] = &[
    "_cf_chl_opt",
    "cf-chl-",
    "/cdn-cgi/challenge-platform",
    "px-captcha",
    "captcha-delivery.com",
    "_Incapsula_Resource",
    "ddos-guard",
    "awsWafCookieDomainList",
    "distil_r_captcha",
    "sec-if-cpt-container",
    "g-recaptcha",
    "h-captcha",
];
/// What titles of pages that are not there say.
const MISSING: &[&str] = &[
    "404",
    "page not found",
    "not found",
    "page introuvable",
    "seite nicht gefunden",
    "página no encontrada",
    "página não encontrada",
    "pagina non trovata",
    "pagina niet gevonden",
    "strona nie znaleziona",
    "страница не найдена",
    "sidan hittades inte",
    "sayfa bulunamadı",
    "ページが見つかりません",
    "页面不存在",
];

/// Why a page is no article, if something says so; `words` are those of what was taken for one.
pub(super) fn refuse(
    html: &str,
    title: &str,
    declared: &Declared,
    page: &Page,
    outline: &Outline,
    words: usize,
) -> Option<NotArticle> {
    if words >= ENOUGH_WORDS {
        return None;
    }
    let bare = outline.words.len() < BARE_WORDS;
    if bare && CHALLENGES.iter().any(|name| html.contains(name)) && words < 60 {
        return Some(NotArticle::Challenge);
    }
    let titles = [Some(title), declared.title.as_deref()];
    let heading = page.headings.first().map(|(text, _)| text.as_str());
    if bare && titles.into_iter().flatten().chain(heading).any(says_missing) {
        return Some(NotArticle::Missing);
    }
    if bare && declared.asks_password && words < 60 {
        return Some(NotArticle::SignIn);
    }
    is_listing(declared, outline, words).then_some(NotArticle::Listing)
}

fn says_missing(title: &str) -> bool {
    let title = fold(title);
    MISSING.iter().any(|words| {
        let exact = title == *words;
        exact
            || title.split(' ').count() <= 6 && (title.starts_with(words) || title.ends_with(words))
    })
}

/// Whether nearly all of a page is links to others, and no article is declared.
fn is_listing(declared: &Declared, outline: &Outline, words: usize) -> bool {
    let links = outline.links.last().copied().unwrap_or_default() / outline.total;
    let is_article =
        declared.raw_meta("og:type").is_some_and(|kind| kind.eq_ignore_ascii_case("article"))
            || declared
                .ld
                .types
                .iter()
                .any(|name| name.ends_with("Article") || name.ends_with("Posting"));
    !is_article && words < 60 && links > 0.6 && outline.words.len() > 10 * words.max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_pages_that_are_not_there() {
        for title in
            ["404", "404 – Page not found", "Page not found | Paper", "Seite nicht gefunden"]
        {
            assert!(says_missing(title), "{title}");
        }
        for title in ["Why 404 pages are art and what they tell us", "Lost and found", "Room 4041"]
        {
            assert!(!says_missing(title), "{title}");
        }
    }
}
