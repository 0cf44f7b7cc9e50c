//! Addresses that only lead to another one, which stands in them: what aggregators, search engines,
//! mail filters and advertisers put around a link to see who follows it.
//!
//! Nobody is asked: what cannot be read in the address stays as it is. The result is never anything
//! but an http(s) address that may be fetched, and unwrapping it again changes nothing.

use crate::url::{Url, host, parse, path_and_query, site, unescape};

/// Wrappers around wrappers that are opened at the most.
const DEPTH: usize = 8;
/// What the code of an article at Google News begins with when an address follows.
const GOOGLE_NEWS_START: &[u8] = &[0x08, 0x13, 0x22];

/// Where the address stands.
enum At {
    /// In the first of these parameters that has one.
    Query(&'static [&'static str]),
    /// In the path, after this text.
    Path(&'static str),
    /// In the path, without its scheme: after the first it is https, after the second http.
    Amp(&'static str, &'static str),
    /// In a segment of the path, as Google News encodes it.
    GoogleNews,
    /// In a parameter, with `-` and `_` for what cannot stand in an address.
    Proofpoint,
}

/// Whose wrapper it is, where its path begins, and where the address stands. A host also means all
/// names below it; `google` is Google's in any country.
const WRAPPERS: &[(&str, &str, At)] = &[
    ("news.google.com", "/news/url", At::Query(&["url", "q"])),
    ("news.google.com", "/", At::GoogleNews),
    ("google", "/url", At::Query(&["url", "q"])),
    ("google", "/imgres", At::Query(&["imgrefurl"])),
    ("google", "/amp/", At::Amp("/amp/s/", "/amp/")),
    ("cdn.ampproject.org", "/c/", At::Amp("/c/s/", "/c/")),
    ("cdn.ampproject.org", "/v/", At::Amp("/v/s/", "/v/")),
    ("googleadservices.com", "/", At::Query(&["adurl"])),
    ("doubleclick.net", "/", At::Query(&["adurl", "url", "ds_dest_url"])),
    ("doubleclick.net", "/", At::Path(";")),
    ("youtube.com", "/redirect", At::Query(&["q"])),
    ("msn.com", "/", At::Query(&["url"])),
    ("bing.com", "/news/apiclick.aspx", At::Query(&["url"])),
    ("bing.com", "/ck/a", At::Query(&["u"])),
    ("r.search.yahoo.com", "/", At::Path("/RU=")),
    ("rd.yahoo.com", "/", At::Path("/*")),
    ("yahoo.com", "/", At::Query(&["u"])),
    ("duckduckgo.com", "/l/", At::Query(&["uddg"])),
    ("facebook.com", "/l.php", At::Query(&["u"])),
    ("l.instagram.com", "/", At::Query(&["u"])),
    ("t.umblr.com", "/redirect", At::Query(&["z"])),
    ("out.reddit.com", "/", At::Query(&["url"])),
    ("linkedin.com", "/redir/", At::Query(&["url"])),
    ("linkedin.com", "/safety/go", At::Query(&["url"])),
    ("vk.com", "/away.php", At::Query(&["to"])),
    ("medium.com", "/r/", At::Query(&["url"])),
    ("getpocket.com", "/redirect", At::Query(&["url"])),
    ("flipboard.com", "/redirect", At::Query(&["url"])),
    ("disq.us", "/url", At::Query(&["url"])),
    ("slack-redir.net", "/link", At::Query(&["url"])),
    ("safelinks.protection.outlook.com", "/", At::Query(&["url"])),
    ("urldefense.proofpoint.com", "/v2/url", At::Proofpoint),
    ("urldefense.com", "/v3/", At::Path("/v3/__")),
    ("go.skimresources.com", "/", At::Query(&["url"])),
    ("go.redirectingat.com", "/", At::Query(&["url"])),
    ("redirect.viglink.com", "/", At::Query(&["u"])),
    ("awin1.com", "/cread.php", At::Query(&["ued", "p"])),
];

/// The address inside all wrappers; `None` when there is none around it that can be read.
#[must_use]
pub fn unwrap(url: &Url) -> Option<Url> {
    let mut inner = open(url)?;
    for _ in 1..DEPTH {
        let Some(next) = open(&inner) else { break };
        inner = next;
    }
    Some(inner)
}

/// Whether the address is one of `FeedBurner`'s, which tell the page only in the feed.
#[must_use]
pub fn is_feedburner(url: &Url) -> bool {
    let host = host(url);
    let theirs = host == "feedproxy.google.com" || is_of(&host, "feedburner.com");
    theirs || url.path().starts_with("/~r/")
}

fn open(url: &Url) -> Option<Url> {
    let (host, path) = (host(url), url.path());
    let fits = |(of, begins, _): &&(&str, &str, At)| is_of(&host, of) && path.starts_with(begins);
    let mut found = WRAPPERS.iter().filter(fits).filter_map(|(_, _, at)| at.read(url));
    found.next().filter(|inner| inner != url)
}

fn is_of(host: &str, of: &str) -> bool {
    if of == "google" {
        let name = site(host);
        return name.starts_with("google.") && (host == name || host == format!("www.{name}"));
    }
    host.strip_suffix(of).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

impl At {
    fn read(&self, url: &Url) -> Option<Url> {
        match self {
            Self::Query(names) => {
                let value = |name: &&str| {
                    let pairs = url.query_pairs().filter(|(given, _)| given == *name);
                    pairs.map(|(_, value)| value).find_map(|value| address(&value))
                };
                names.iter().find_map(value)
            }
            Self::Path(after) => {
                let whole = path_and_query(url);
                let (_, rest) = whole.split_once(after)?;
                let rest = ["/RK=", "__;"]
                    .iter()
                    .fold(rest, |rest, end| rest.split_once(end).map_or(rest, |(inner, _)| inner));
                first_address(rest).or_else(|| first_address(&unescaped(rest)))
            }
            Self::Amp(secure, plain) => {
                let whole = path_and_query(url);
                let (scheme, place) = match whole.strip_prefix(secure) {
                    Some(place) => ("https", place),
                    None => ("http", whole.strip_prefix(plain)?),
                };
                // What it is without its scheme begins with a name, not with a path.
                let named = place.split('/').next().is_some_and(|name| name.contains('.'));
                named.then(|| address(&format!("{scheme}://{place}")))?
            }
            Self::GoogleNews => {
                let (_, code) = url.path().rsplit_once("/articles/")?;
                google_news(&base64(code)?)
            }
            Self::Proofpoint => {
                let pair = url.query_pairs().find(|(name, _)| name == "u")?;
                address(&unescaped(&pair.1.replace('-', "%").replace('_', "/")))
            }
        }
    }
}

/// An absolute address, also one that Bing has encoded.
fn address(text: &str) -> Option<Url> {
    let text = text.trim();
    if let Some(url) = web(text) {
        return Some(url);
    }
    let decoded = base64(text.strip_prefix("a1")?)?;
    web(std::str::from_utf8(&decoded).ok()?)
}

/// Only what says itself that it is one: anything else could be a path or a word.
fn web(text: &str) -> Option<Url> {
    let scheme = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let is_web = scheme.starts_with("http://") || scheme.starts_with("https://");
    is_web.then(|| parse(text).ok())?
}

/// The first address in what Google News encodes. Since 2024 it is mostly a number of theirs, and
/// only they can tell what it stands for.
fn google_news(bytes: &[u8]) -> Option<Url> {
    let rest = bytes.strip_prefix(GOOGLE_NEWS_START)?;
    let (length, rest) = match rest {
        [low, high, rest @ ..] if *low > 0x7f => {
            (usize::from(low & 0x7f) | usize::from(*high) << 7, rest)
        }
        [length, rest @ ..] => (usize::from(*length), rest),
        [] => return None,
    };
    web(std::str::from_utf8(rest.get(..length)?).ok()?)
}

/// The first address that stands in a text, to its end.
fn first_address(text: &str) -> Option<Url> {
    let starts = ["https://", "http://"].iter().filter_map(|scheme| text.find(scheme));
    address(text.get(starts.min()?..)?)
}

fn unescaped(text: &str) -> String {
    let bytes: Vec<u8> = unescape(text).map(|(byte, _)| byte).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Base64 in either alphabet, padded or not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len()), 0_u32, 0);
    for symbol in text.trim_end_matches('=').bytes() {
        let six = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unwrapped(given: &str) -> Option<String> {
        unwrap(&parse(given).unwrap()).map(|url| url.to_string())
    }

    /// The old form of an article's address at Google News.
    fn news(address: &str) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bytes = GOOGLE_NEWS_START.to_vec();
        let length = address.len();
        if length < 128 {
            bytes.push(length as u8);
        } else {
            bytes.extend([(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
        }
        bytes.extend_from_slice(address.as_bytes());
        bytes.extend([0xd2, 0x01, 0x00]);
        let code = bytes.chunks(3).flat_map(|three| {
            let word = three.iter().chain([&0, &0]).take(3).fold(0, |w, b| w << 8 | u32::from(*b));
            let symbols = [18, 12, 6, 0].map(|shift| ALPHABET[(word >> shift & 63) as usize]);
            symbols.into_iter().take(three.len() + 1)
        });
        code.map(char::from).collect()
    }

    #[test]
    fn wrappers_are_opened() {
        let old = format!(
            "https://news.google.com/rss/articles/{}?oc=5",
            news("https://a.example/story-1")
        );
        let long = format!("https://a.example/{}", "word-".repeat(40));
        let old_long = format!("https://news.google.com/__i/rss/rd/articles/{}", news(&long));
        for (whose, given, inner) in [
            (
                "Google Alerts",
                "https://www.google.com/url?rct=j&sa=t&url=https://a.example/s%3Fid%3D1%26b%3D2&ct=ga&cd=x&usg=y",
                "https://a.example/s?id=1&b=2",
            ),
            (
                "Google, q",
                "https://www.google.co.uk/url?q=http://a.example/s&sa=U",
                "http://a.example/s",
            ),
            ("Google News", &old, "https://a.example/story-1"),
            ("Google News, long", &old_long, long.as_str()),
            (
                "Google News, by parameter",
                "http://news.google.com/news/url?sa=t&fd=R&url=http://a.example/s",
                "http://a.example/s",
            ),
            (
                "AMP",
                "https://www.google.com/amp/s/a.example/s.amp?x=1",
                "https://a.example/s.amp?x=1",
            ),
            (
                "AMP cache",
                "https://a-example.cdn.ampproject.org/c/a.example/s",
                "http://a.example/s",
            ),
            (
                "MSN",
                "https://www.msn.com/en-us/news/r?url=https%3A%2F%2Fa.example%2Fs",
                "https://a.example/s",
            ),
            (
                "Bing News",
                "http://www.bing.com/news/apiclick.aspx?ref=FexRss&aid=&tid=1&url=https%3a%2f%2fa.example%2fs&c=2",
                "https://a.example/s",
            ),
            (
                "Bing",
                "https://www.bing.com/ck/a?!&&p=1&u=a1aHR0cHM6Ly9hLmV4YW1wbGUvcw&ntb=1",
                "https://a.example/s",
            ),
            (
                "Yahoo",
                "https://news.yahoo.com/r?u=https%3A%2F%2Fa.example%2Fs",
                "https://a.example/s",
            ),
            (
                "Yahoo search",
                "https://r.search.yahoo.com/_ylt=A/RV=2/RE=1/RO=10/RU=https%3a%2f%2fa.example%2fs%3fb%3d1/RK=2/RS=x",
                "https://a.example/s?b=1",
            ),
            (
                "Yahoo, old",
                "http://us.rd.yahoo.com/dailynews/rss/world/*http://a.example/s?b=1",
                "http://a.example/s?b=1",
            ),
            (
                "Facebook",
                "https://l.facebook.com/l.php?u=https%3A%2F%2Fa.example%2Fs&h=AT",
                "https://a.example/s",
            ),
            (
                "Tumblr",
                "https://t.umblr.com/redirect?z=https%3A%2F%2Fa.example%2Fs&t=x",
                "https://a.example/s",
            ),
            (
                "Outlook",
                "https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fa.example%2Fs&data=05",
                "https://a.example/s",
            ),
            (
                "DoubleClick",
                "https://ad.doubleclick.net/ddm/clk/1;2;c?https://a.example/s%20t",
                "https://a.example/s%20t",
            ),
            (
                "DoubleClick, path",
                "https://ad.doubleclick.net/clk;1234;x;https://a.example/s?b=1",
                "https://a.example/s?b=1",
            ),
            (
                "ads",
                "https://www.googleadservices.com/pagead/aclk?sa=L&adurl=https://a.example/s",
                "https://a.example/s",
            ),
            (
                "Proofpoint",
                "https://urldefense.proofpoint.com/v2/url?u=https-3A__a.example_s-3Fb-3D1&d=DwMF",
                "https://a.example/s?b=1",
            ),
            (
                "Proofpoint 3",
                "https://urldefense.com/v3/__https://a.example/s__;!!abc",
                "https://a.example/s",
            ),
            (
                "in one another",
                "https://www.google.com/url?url=https://l.facebook.com/l.php%3Fu%3Dhttps%253A%252F%252Fa.example%252Fs",
                "https://a.example/s",
            ),
        ] {
            assert_eq!(unwrapped(given).unwrap_or_default(), inner, "{whose}");
        }
    }

    #[test]
    fn what_cannot_be_read_stays() {
        for given in [
            "https://a.example/url?url=https://b.example/s",
            "https://notgoogle.com/url?url=https://b.example/s",
            "https://www.google.com/search?q=https://b.example/s",
            "https://maps.google.com/url?q=https://b.example/s",
            "https://www.google.com/url?q=javascript:alert(1)",
            "https://www.google.com/url?q=file:///etc/passwd",
            "https://www.google.com/url?q=/search?x=1",
            "https://www.google.com/url?q=https://ann:pw@b.example/",
            "https://www.google.com/amp/about",
            "https://news.google.com/rss/articles/CBMiakFVX3lxTE1fbm90LWFuLWFkZHJlc3M?oc=5",
            "https://news.google.com/rss/articles/",
            "https://www.msn.com/en-us/news/world/a-story/ar-AA1",
            "https://t.co/abc",
        ] {
            assert_eq!(unwrapped(given), None, "{given}");
        }
    }

    #[test]
    fn feedburner_is_known() {
        for (given, is) in [
            ("http://feedproxy.google.com/~r/press/~3/abc/", true),
            ("https://feeds.feedburner.com/~r/press/~3/abc/", true),
            ("http://feeds.press.example/~r/press/~3/abc/", true),
            ("https://press.example/story", false),
        ] {
            assert_eq!(is_feedburner(&parse(given).unwrap()), is, "{given}");
        }
    }

    fn wrapped(inner: &str, how: usize) -> String {
        let escaped: String = ::url::form_urlencoded::byte_serialize(inner.as_bytes()).collect();
        match how % 6 {
            0 => format!("https://www.google.com/url?sa=t&url={escaped}"),
            1 => format!("https://l.facebook.com/l.php?u={escaped}&h=x"),
            2 => format!("https://news.google.com/articles/{}", news(inner)),
            3 => format!("https://eur.safelinks.protection.outlook.com/?url={escaped}"),
            4 => format!("https://r.search.yahoo.com/x/RU={escaped}/RK=2/RS=x"),
            _ => format!("https://out.reddit.com/t3?url={escaped}&token=y"),
        }
    }

    proptest! {
        #[test]
        fn what_was_wrapped_comes_out(
            path in "[a-z0-9/=&?%+-]{0,40}", how in prop::collection::vec(0_usize..6, 1..4),
        ) {
            let inner = parse(&format!("https://press.example/{path}")).unwrap();
            let mut given = inner.to_string();
            for how in how {
                given = wrapped(&given, how);
            }
            prop_assume!(parse(&given).is_ok());
            prop_assert_eq!(unwrapped(&given), Some(inner.to_string()));
        }

        #[test]
        fn only_addresses_come_out_and_once(
            wrapper in prop::sample::select(WRAPPERS.iter().map(|w| (w.0, w.1)).collect::<Vec<_>>()),
            rest in ".{0,60}",
        ) {
            let host = if wrapper.0 == "google" { "www.google.com" } else { wrapper.0 };
            for given in [
                format!("https://{host}{}{rest}", wrapper.1),
                format!("https://{host}{}?url={rest}&u={rest}&q={rest}", wrapper.1),
            ] {
                let Ok(url) = parse(&given) else { continue };
                if let Some(inner) = unwrap(&url) {
                    prop_assert!(parse(inner.as_str()).is_ok());
                    prop_assert!(inner.as_str().len() < url.as_str().len());
                }
            }
        }
    }
}
