//! The documents that commands are pointed at: a file, standard input, or an address that is asked
//! as the engine would.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use feedmill_formats::{decode, url as web};

use super::{Context, Failure};
use crate::app;
use crate::model::{Kind, Validators};

/// Redirects that are followed to the document.
const MAX_REDIRECTS: usize = 5;

/// A document, as it was served.
pub(super) struct Document {
    pub body: Vec<u8>,
    pub content_type: Option<String>,
    /// Its own address; empty where nobody said it.
    pub base: String,
}

impl Document {
    /// What a file, an address, or `-` for standard input holds.
    pub(super) async fn of(input: &str, kind: Kind, context: &Context) -> Result<Self, Failure> {
        match web::parse(input) {
            Ok(address) if matches!(address.scheme(), "http" | "https") => {
                fetched(address, kind, context).await
            }
            _ => Ok(Self { body: local(input)?, content_type: None, base: String::new() }),
        }
    }
}

/// The bytes of a file, or of standard input for `-`.
pub(super) fn local(input: &str) -> Result<Vec<u8>, Failure> {
    local_up_to(input, usize::MAX - 1)
}

/// The same, and no more than one byte above a limit: the caller refuses what is larger.
pub(super) fn local_up_to(input: &str, limit: usize) -> Result<Vec<u8>, Failure> {
    let (mut body, most) = (Vec::new(), limit as u64 + 1);
    let read = match input {
        "-" => std::io::stdin().lock().take(most).read_to_end(&mut body),
        path => File::open(path).and_then(|file| file.take(most).read_to_end(&mut body)),
    };
    read.map_err(|error| Failure::failed("input", format!("cannot read {input}: {error}")))?;
    Ok(body)
}

/// Asks for the document as the engine would, and follows redirects.
async fn fetched(
    mut address: web::Url,
    kind: Kind,
    context: &Context,
) -> Result<Document, Failure> {
    let config = context.load()?.config;
    let (client, guard) = app::client(&config, &context.clock)?;
    for _ in 0..=MAX_REDIRECTS {
        guard.check_url(&address).map_err(|no| Failure::failed("guarded", no.to_string()))?;
        let answer = client
            .get(&address, kind, &Validators::default(), None, Duration::MAX)
            .await
            .map_err(|error| Failure::failed(error.code().as_str(), error.to_string()))?;
        let header = |name| answer.headers.get(name).map(str::to_owned);
        if let (300..=399, Some(target)) = (answer.status, header("location")) {
            let next = web::join(&address, &target);
            address = next.map_err(|error| Failure::failed(error.code(), error.to_string()))?;
            continue;
        }
        if !(200..=299).contains(&answer.status) {
            let message = format!("{address} answers with status {}", answer.status);
            return Err(Failure::failed("http_status", message));
        }
        let limit = config.fetch.max_decoded.as_len();
        let body = decode::capped(&answer.body, header("content-encoding").as_deref(), limit)
            .map_err(|error| Failure::failed(error.code(), error.to_string()))?;
        return Ok(Document {
            body: body.into_owned(),
            content_type: header("content-type"),
            base: address.to_string(),
        });
    }
    Err(Failure::failed("redirect_loop", format!("{address} is one redirect too many")))
}
