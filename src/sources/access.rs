//! What a publisher gave an operator to be let in, checked before it is kept. Pure.
//!
//! No message tells a value: it may be a secret.

use super::SpecError;
use crate::config::check_proxy;
use crate::model::{Access, Auth};

/// Lines that are ours to write, and what to do instead.
const OURS: &[(&str, &str)] = &[
    ("user-agent", "is the agent's line: give it as the user agent"),
    ("cookie", "is the cookie's line: give it as the cookie"),
    ("authorization", "is the credentials' line: give them as basic or bearer"),
    ("host", "is made from the address: leave it out"),
    ("referer", "is never sent: leave it out"),
    ("accept-encoding", "says what we can decode: leave it out"),
    ("range", "would cut answers off: leave it out"),
];

/// Lines about the connection or about earlier answers, by the beginnings of their names.
const NOT_A_SOURCES: &[&str] = &[
    "if-",
    "proxy-",
    "content-",
    "transfer-",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
];

/// Servers refuse requests with longer lines.
const MAX_LINE: usize = 8_000;
/// What a request carries for a source, all together.
const MAX_BYTES: usize = 32_000;

/// Says what is wrong.
pub(super) fn check(access: &Access) -> Result<(), SpecError> {
    let refuse = |what: String, problem| Err(SpecError::Access { what, problem });
    if access.user_agent.as_ref().is_some_and(|agent| !is_line(agent)) {
        return refuse(
            "user agent".to_owned(),
            "must be plain ASCII on one line of at most 8,000 characters",
        );
    }
    for (name, value) in &access.headers {
        let what = format!("header `{}`", name.escape_default());
        if let Some(problem) = misnamed(name) {
            return refuse(what, problem);
        }
        if !is_line(value.expose()) {
            return refuse(
                what,
                "needs a value of plain ASCII on one line of at most 8,000 characters",
            );
        }
    }
    if access.cookie.as_ref().is_some_and(|cookie| !is_line(cookie.expose())) {
        return refuse("cookie".to_owned(), "must be plain ASCII on one line, such as `id=1; b=2`");
    }
    match &access.auth {
        Some(Auth::Basic { user, password })
            if user.is_empty()
                || user.contains(':')
                || [user, password.expose()]
                    .iter()
                    .any(|part| part.chars().any(char::is_control)) =>
        {
            return refuse(
                "credentials".to_owned(),
                "must be written as USER:PASSWORD on one line",
            );
        }
        Some(Auth::Bearer(token)) if !is_line(token.expose()) || token.expose().contains(' ') => {
            return refuse("token".to_owned(), "must be plain ASCII without spaces");
        }
        Some(_) | None => {}
    }
    let lines = access.headers.iter().map(|(name, value)| name.len() + value.expose().len());
    if lines.sum::<usize>() > MAX_BYTES {
        return refuse("headers".to_owned(), "may have 32,000 characters together");
    }
    let credentials = match &access.auth {
        Some(Auth::Basic { user, password }) => user.len() + password.expose().len(),
        _ => 0,
    };
    if credentials > MAX_LINE {
        return refuse("credentials".to_owned(), "may have 8,000 characters");
    }
    if let Some(Err(problem)) = access.proxy.as_ref().map(check_proxy) {
        return refuse("proxy".to_owned(), problem);
    }
    Ok(())
}

fn is_line(value: &str) -> bool {
    value.len() <= MAX_LINE
        && !value.trim().is_empty()
        && value.chars().all(|c| c == ' ' || c.is_ascii_graphic())
}

fn misnamed(name: &str) -> Option<&'static str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Some("has no name that a header can have: write it as `NAME: VALUE`");
    }
    if let Some((_, problem)) = OURS.iter().find(|(ours, _)| *ours == name) {
        return Some(problem);
    }
    let is_taken = NOT_A_SOURCES.iter().any(|taken| match taken.strip_suffix('-') {
        Some(_) => name.starts_with(taken),
        None => name == *taken,
    });
    is_taken.then_some("belongs to the connection or to earlier answers: leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;

    fn secret(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }

    fn header(name: &str, value: &str) -> Access {
        Access { headers: [(name.to_owned(), secret(value))].into(), ..Access::default() }
    }

    #[test]
    fn what_can_be_sent_passes() {
        let whole = Access {
            user_agent: Some("Alder/1 (+https://alder.example)".into()),
            cookie: Some(secret("id=1; b=2")),
            auth: Some(Auth::Basic { user: "ann".into(), password: secret("pä:ss wörd") }),
            proxy: Some("socks5h://ann:pw@proxy.example:1080".to_owned().into()),
            ..header("x-api-key", "a b c")
        };
        assert_eq!(check(&whole), Ok(()));
        assert_eq!(check(&Access { auth: Some(Auth::Bearer(secret("abc.def"))), ..whole }), Ok(()));
    }

    #[test]
    fn what_cannot_is_refused_without_telling_it() {
        let default = Access::default;
        let basic = |user: &str, password: &str| Access {
            auth: Some(Auth::Basic { user: user.into(), password: secret(password) }),
            ..default()
        };
        let bearer = |token: &str| Access { auth: Some(Auth::Bearer(secret(token))), ..default() };
        for (access, words) in [
            (Access { user_agent: Some("hunter\n".into()), ..default() }, "the user agent must be"),
            (Access { user_agent: Some(String::new()), ..default() }, "the user agent must be"),
            (Access { user_agent: Some("A".repeat(8_001)), ..default() }, "the user agent must be"),
            (header("", "hunter"), "`NAME: VALUE`"),
            (header("x y", "hunter"), "`NAME: VALUE`"),
            (header("x-key", "hunter\r\nx: y"), "the header `x-key` needs a value"),
            (header("x-key", ""), "the header `x-key` needs a value"),
            (header("cookie", "hunter"), "give it as the cookie"),
            (header("authorization", "hunter"), "basic or bearer"),
            (header("referer", "hunter"), "never sent"),
            (header("if-none-match", "hunter"), "earlier answers"),
            (header("connection", "hunter"), "belongs to the connection"),
            (Access { cookie: Some(secret("hunter\n")), ..default() }, "the cookie must be"),
            (basic("", "hunter"), "USER:PASSWORD"),
            (basic("a:b", "hunter"), "USER:PASSWORD"),
            (basic("a", "hunter\n"), "USER:PASSWORD"),
            (bearer("hunter 2"), "the token must be"),
            (bearer(""), "the token must be"),
            (Access { proxy: Some("hunter".to_owned().into()), ..default() }, "http://host:port"),
        ] {
            let error = check(&access).unwrap_err();
            assert_eq!(error.code(), "bad_access");
            let told = error.to_string();
            assert!(told.contains(words) && !told.contains("hunter"), "{told}");
        }
    }
}
