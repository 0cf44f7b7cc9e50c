//! Conditional answers: an answer that is held in memory is known by a hash of its bytes, and one that the
//! asker has already is not sent again.

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use sha2::{Digest as _, Sha256};

/// Characters of the hash that are told.
const LENGTH: usize = 32;

/// What an asker has.
#[derive(Clone, Debug)]
pub(super) struct Known {
    tags: Option<String>,
}

pub(super) fn known(headers: &HeaderMap) -> Known {
    let tags = headers.get_all(header::IF_NONE_MATCH).iter();
    let tags: Vec<&str> = tags.filter_map(|tags| tags.to_str().ok()).collect();
    Known { tags: (!tags.is_empty()).then(|| tags.join(",")) }
}

impl Known {
    /// Whether this is what the asker has.
    fn has(&self, tag: &str) -> bool {
        self.tags.as_deref().is_some_and(|tags| has(tags, tag))
    }
}

/// Whether a list of tags names one. Weak ones count: they are of our making.
pub(super) fn has(tags: &str, tag: &str) -> bool {
    tags.split(',')
        .map(|one| one.trim().trim_start_matches("W/"))
        .any(|one| one == "*" || one == tag)
}

/// The tag of some bytes.
pub(super) fn of(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{}\"", hex.chars().take(LENGTH).collect::<String>())
}

/// The answer with its tag, or without its body when the asker has it. A stream has no tag.
pub(super) async fn conditional(response: Response, known: &Known) -> Response {
    if response.status() != StatusCode::OK || response.body().size_hint().exact().is_none() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let told = parts.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let tag = told.map_or_else(|| of(&bytes), str::to_owned);
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(header::ETAG, value);
    }
    if known.has(&tag) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::CONTENT_TYPE);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_in_a_list() {
        let tag = of(b"text");
        assert_eq!(tag.len(), LENGTH + 2);
        for tags in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            assert!(has(&tags, &tag), "{tags}");
        }
        assert!(!has("\"x\"", &tag));
    }
}
