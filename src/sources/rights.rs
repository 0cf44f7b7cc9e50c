//! Who may change what of a source. Pure.
//!
//! What is judged is the source before and after, not the names of fields: a field has several names, and
//! several ways lead to a change. A proxy, an address to connect from, headers and credentials decide
//! where requests go and what they carry, so only administrators set them. Credentials go to the site of
//! the source's URL, so only administrators move that URL once there are some.

use feedmill_formats::url;

use super::SpecError;
use crate::model::{Access, NewSource};

/// Why a change needs the scope `admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminOnly {
    /// It sets how the source is asked.
    #[error(
        "only `admin` may change `access` (proxy, bind, headers, cookie, credentials): use a token of that scope, or `feedmill source access`"
    )]
    Access,
    /// It would send the source's credentials elsewhere.
    #[error(
        "the source has credentials, which go to the site of its URL: only `admin` may change `url`, or add an address with a port; use a token of that scope, or `feedmill source set`"
    )]
    Credentials,
}

impl AdminOnly {
    /// The field that it is about.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Credentials => "url",
        }
    }
}

/// Checks a change that somebody without the scope `admin` makes; `was` is nothing for a new source.
pub fn check_rights(was: Option<&NewSource>, now: &NewSource) -> Result<(), SpecError> {
    // The agent is no secret and leads nowhere.
    let guarded = |spec: &NewSource| Access { user_agent: None, ..spec.access.clone() };
    if guarded(now) != was.map(guarded).unwrap_or_default() {
        return Err(SpecError::AdminOnly(AdminOnly::Access));
    }
    match was.is_some_and(|was| moves_credentials(was, now)) {
        true => Err(SpecError::AdminOnly(AdminOnly::Credentials)),
        false => Ok(()),
    }
}

/// Whether credentials that a source has would be sent to a site or port that did not get them before.
#[must_use]
pub fn moves_credentials(was: &NewSource, now: &NewSource) -> bool {
    let Access { headers, cookie, auth, .. } = &was.access;
    if headers.is_empty() && cookie.is_none() && auth.is_none() {
        return false;
    }
    let known: Vec<&String> = was.feed_urls.iter().chain(&was.sitemap_urls).collect();
    let has_port = |given: &String| url::parse(given).is_ok_and(|url| url.port().is_some());
    let mut channels = now.feed_urls.iter().chain(&now.sitemap_urls);
    now.url != was.url || channels.any(|channel| !known.contains(&channel) && has_port(channel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Auth, Secret};

    fn secret() -> Secret {
        Secret::from("hunter2".to_owned())
    }

    fn source() -> NewSource {
        NewSource::new("alder", "https://alder.example/")
    }

    #[test]
    fn how_a_source_is_asked_is_an_administrators_matter() {
        let (default, refused) = (Access::default, Err(SpecError::AdminOnly(AdminOnly::Access)));
        for access in [
            Access { proxy: Some("http://proxy.example:3128".to_owned().into()), ..default() },
            Access { proxy: Some(String::new().into()), ..default() },
            Access { bind: vec!["192.0.2.1".parse().unwrap()], ..default() },
            Access { headers: [("x-key".to_owned(), secret())].into(), ..default() },
            Access { cookie: Some(secret()), ..default() },
            Access { auth: Some(Auth::Bearer(secret())), ..default() },
            Access { unconditional: true, ..default() },
        ] {
            let with = NewSource { access, ..source() };
            assert_eq!(check_rights(None, &with), refused);
            assert_eq!(check_rights(Some(&source()), &with), refused);
            assert_eq!(check_rights(Some(&with), &source()), refused, "nor removed");
            assert_eq!(check_rights(Some(&with), &with), Ok(()), "what stays is nobody's change");
        }
        let access = Access { user_agent: Some("Alder/1".into()), ..default() };
        assert_eq!(check_rights(None, &NewSource { access, ..source() }), Ok(()));
    }

    #[test]
    fn credentials_are_not_sent_elsewhere_by_a_change_of_address() {
        let with = |access| NewSource { access, ..source() };
        let known = with(Access { cookie: Some(secret()), ..Access::default() });
        for (url, feed, allowed) in [
            ("https://alder.example/", "https://alder.example/feed", true),
            ("https://evil.example/", "https://alder.example/feed", false),
            ("http://alder.example/", "https://alder.example/feed", false),
            ("https://alder.example/", "https://alder.example:8443/feed", false),
            ("https://alder.example/", "https://evil.example/feed", true),
        ] {
            let (url, feed_urls) = (url.to_owned(), vec![feed.to_owned()]);
            let now = NewSource { url, feed_urls, ..known.clone() };
            assert_eq!(check_rights(Some(&known), &now).is_ok(), allowed, "{} {feed}", now.url);
            let open = NewSource { access: Access::default(), ..now };
            assert_eq!(check_rights(Some(&source()), &open), Ok(()), "there is nothing to send");
        }
    }
}
