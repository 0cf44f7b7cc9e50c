//! `feedmill api`: what the HTTP server says about itself.

use clap::Subcommand;
use serde_json::Value;

use super::{Context, Failure};
use crate::api;

/// Describes the HTTP API; `feedmill run` serves it
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Prints the OpenAPI document
    Openapi,
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Openapi => {
            let text = api::openapi();
            let value: Value = serde_json::from_str(&text)
                .map_err(|error| Failure::failed("json", error.to_string()))?;
            context.out.document(&value, &text)
        }
    }
}
