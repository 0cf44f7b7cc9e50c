//! Where services and software keep feeds: by the address of a page, and by what its markup tells of
//! what made it.

use super::{Candidate, Form, How};
use crate::url::{self as web, Url};

/// Feeds that a service has for an address.
#[must_use]
pub fn by_address(page: &Url) -> Vec<Candidate> {
    let host = web::host(page);
    let host = host.strip_prefix("www.").unwrap_or(&host);
    let segments: Vec<&str> =
        page.path_segments().into_iter().flatten().filter(|part| !part.is_empty()).collect();
    let query = |wanted: &str| {
        page.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let of_host = |suffix: &str| host.ends_with(suffix) && host.len() > suffix.len();
    let found: Vec<String> = match (host, segments.as_slice()) {
        ("youtube.com" | "m.youtube.com", ["playlist", ..]) => {
            query("list").map(|list| youtube("playlist_id", &list)).into_iter().collect()
        }
        ("youtube.com" | "m.youtube.com", ["channel", id, ..]) => vec![youtube("channel_id", id)],
        ("youtube.com" | "m.youtube.com", ["user", name, ..]) => vec![youtube("user", name)],
        (
            "reddit.com" | "old.reddit.com" | "new.reddit.com",
            [kind @ ("r" | "user" | "u"), name, ..],
        ) => {
            vec![format!("https://www.reddit.com/{kind}/{name}/.rss")]
        }
        ("github.com", [owner, repository, ..]) => ["releases", "commits", "tags"]
            .map(|what| format!("https://github.com/{owner}/{repository}/{what}.atom"))
            .to_vec(),
        ("github.com", [owner]) => vec![format!("https://github.com/{owner}.atom")],
        ("gitlab.com", [owner, project, ..]) => {
            vec![format!("https://gitlab.com/{owner}/{project}/-/tags?format=atom")]
        }
        ("medium.com", ["feed", ..]) => Vec::new(),
        ("medium.com", [name, ..]) => vec![format!("https://medium.com/feed/{name}")],
        ("dev.to", [name, ..]) => vec![format!("https://dev.to/feed/{name}")],
        ("vimeo.com", [name, ..]) => vec![format!("https://vimeo.com/{name}/videos/rss")],
        ("bsky.app", ["profile", name, ..]) => vec![format!("https://bsky.app/profile/{name}/rss")],
        // Mastodon and what speaks like it.
        (_, [name]) if name.starts_with('@') && name.len() > 1 && !name.ends_with(".rss") => {
            vec![format!("{}/{name}.rss", web::origin(page))]
        }
        _ => {
            let path = if of_host(".substack.com") || of_host(".medium.com") {
                Some("/feed")
            } else if of_host(".tumblr.com") {
                Some("/rss")
            } else if host.contains(".blogspot.") {
                Some("/feeds/posts/default")
            } else if of_host(".wordpress.com") {
                Some("/feed/")
            } else {
                None
            };
            path.map(|path| format!("{}{path}", web::origin(page))).into_iter().collect()
        }
    };
    candidates(found)
}

fn youtube(name: &str, value: &str) -> String {
    format!("https://www.youtube.com/feeds/videos.xml?{name}={value}")
}

fn candidates(urls: Vec<String>) -> Vec<Candidate> {
    let good = urls.into_iter().filter(|url| web::parse(url).is_ok());
    good.map(|url| Candidate::new(url, How::Platform, Form::Feed)).collect()
}

/// Feeds of the software that made a page, by what it says of itself and by its traces.
pub(super) fn by_software(page: &Url, generator: &str, html: &str) -> Vec<Candidate> {
    let generator = generator.to_ascii_lowercase();
    let paths: &[&str] = if generator.contains("wordpress")
        || html.contains("/wp-content/")
        || html.contains("/wp-includes/")
    {
        &["/feed/", "/?feed=rss2"]
    } else if generator.contains("ghost") {
        &["/rss/"]
    } else if generator.contains("drupal") {
        &["/rss.xml"]
    } else if generator.contains("blogger") {
        &["/feeds/posts/default"]
    } else if generator.contains("hugo") {
        &["/index.xml"]
    } else if generator.contains("jekyll") {
        &["/feed.xml"]
    } else if generator.contains("squarespace") || html.contains("static1.squarespace.com") {
        &["?format=rss"]
    } else if generator.contains("wix.com") {
        &["/blog-feed.xml"]
    } else if generator.contains("typo3") {
        &["/?type=9818"]
    } else {
        &[]
    };
    let joined = paths.iter().filter_map(|path| web::join(page, path).ok());
    candidates(joined.map(|url| url.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_their_feeds_at_known_places() {
        for (page, feed) in [
            (
                "https://www.youtube.com/channel/UC12/videos",
                "https://www.youtube.com/feeds/videos.xml?channel_id=UC12",
            ),
            (
                "https://youtube.com/playlist?list=PL9",
                "https://www.youtube.com/feeds/videos.xml?playlist_id=PL9",
            ),
            ("https://old.reddit.com/r/rust/top", "https://www.reddit.com/r/rust/.rss"),
            (
                "https://github.com/rust-lang/rust",
                "https://github.com/rust-lang/rust/releases.atom",
            ),
            ("https://github.com/rust-lang", "https://github.com/rust-lang.atom"),
            ("https://medium.com/@ann", "https://medium.com/feed/@ann"),
            ("https://ann.medium.com/", "https://ann.medium.com/feed"),
            ("https://ann.substack.com/p/x", "https://ann.substack.com/feed"),
            ("https://ann.tumblr.com/", "https://ann.tumblr.com/rss"),
            ("https://ann.blogspot.co.uk/", "https://ann.blogspot.co.uk/feeds/posts/default"),
            ("https://ann.wordpress.com/", "https://ann.wordpress.com/feed/"),
            ("https://social.example/@ann", "https://social.example/@ann.rss"),
            ("https://bsky.app/profile/ann.example", "https://bsky.app/profile/ann.example/rss"),
        ] {
            let found = by_address(&web::parse(page).unwrap());
            assert_eq!(found.first().map(|it| it.url.as_str()), Some(feed), "{page}");
        }
        for page in ["https://example.com/", "https://substack.com/", "https://www.youtube.com/"] {
            assert_eq!(by_address(&web::parse(page).unwrap()), [], "{page}");
        }
    }

    #[test]
    fn software_is_told_by_its_name_and_its_traces() {
        let page = web::parse("https://a.example/blog/").unwrap();
        let of = |generator: &str, html: &str| {
            by_software(&page, generator, html).into_iter().map(|it| it.url).collect::<Vec<_>>()
        };
        let wordpress = ["https://a.example/feed/", "https://a.example/?feed=rss2"];
        assert_eq!(of("WordPress 6.5", ""), wordpress);
        assert_eq!(of("", "<img src='/wp-content/uploads/a.png'>"), wordpress);
        assert_eq!(of("Ghost 5.2", ""), ["https://a.example/rss/"]);
        assert_eq!(of("", "static1.squarespace.com"), ["https://a.example/blog/?format=rss"]);
        assert!(of("Emacs", "").is_empty());
    }
}
