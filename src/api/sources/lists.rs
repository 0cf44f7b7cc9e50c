//! Lists of sources, in and out.

use axum::Json;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use feedmill_formats::url::Url;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::Api;
use crate::api::asked::Asked;
use crate::api::body::receive_upload;
use crate::api::problem::Problem;
use crate::app::import::{self, ImportOptions, Report, Row};
use crate::app::key_rules;
use crate::fetch::Guard;
use crate::sources::lists::{self, Format};
use crate::sources::plan::Followed;

/// Rows that are told in full.
const MAX_ROWS: usize = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct Import {
    /// opml, csv, json or urls; what it looks like when nothing is said.
    #[param(value_type = Option<String>)]
    format: Option<Format>,
    /// Only tells what would be added.
    dry_run: Option<bool>,
}

/// What became of a row.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ImportedRow {
    line: u64,
    /// added, renamed, known or refused.
    result: String,
    /// The source that was added, or has it already.
    name: Option<String>,
    address: Option<String>,
    reason: Option<String>,
}

impl From<Row> for ImportedRow {
    fn from(row: Row) -> Self {
        let Row { line, result, name, address, reason } = row;
        Self { line, result: result.to_owned(), name, address, reason }
    }
}

/// What became of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Imported {
    format: String,
    added: u64,
    known: u64,
    refused: u64,
    /// What of the list means nothing here.
    notes: Vec<String>,
    /// The first 10,000 rows; those behind them are in the counts.
    rows: Vec<ImportedRow>,
}

/// Adds the sources of a list: OPML, CSV, JSON or plain addresses. What is followed already is left alone
#[utoipa::path(post, path = "/sources/import", tag = "sources", params(Import),
    request_body(content((String = "text/plain"), (String = "text/x-opml"), (String = "text/csv"),
        (String = "application/json"))),
    responses((status = 200, body = Imported)))]
pub(in crate::api) async fn import(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<Imported>, Problem> {
    let (mut parts, body) = request.into_parts();
    let Asked(asked) = Asked::<Import>::from_request_parts(&mut parts, &()).await?;
    let body = receive_upload(Request::from_parts(parts, body)).await?;
    if body.contains(&0) {
        return Err(Problem::unusable("bad_list", "the list has a character 0 in it"));
    }
    let guard = Guard::new(&api.config.fetch);
    let permit = move |url: &Url| guard.check_url(url).map_err(|refusal| refusal.to_string());
    let store = &*api.store;
    let followed = Followed::of(&store.sources().await?, key_rules(&api.config));
    let options = ImportOptions {
        format: asked.format,
        dry_run: asked.dry_run.unwrap_or(false),
        max_rows: MAX_ROWS,
        now: api.clock.now(),
    };
    let imported = import::import(store, body, followed, permit, options, &mut |_| {}).await;
    let Report { format, added, known, refused, notes, rows } = imported?;
    let rows = rows.into_iter().map(ImportedRow::from).collect();
    Ok(Json(Imported { format: format.to_string(), added, known, refused, notes, rows }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct Export {
    /// opml, csv, json or urls; opml when nothing is said.
    #[param(value_type = Option<String>)]
    format: Option<Format>,
}

/// All sources as a list that can be imported again; secrets are left out
#[utoipa::path(get, path = "/sources/export", tag = "sources", params(Export),
    responses((status = 200, description = "The list", content((String = "text/x-opml"),
        (String = "text/csv"), (Object = "application/json"), (String = "text/plain")))))]
pub(in crate::api) async fn export(
    State(api): State<Api>,
    Asked(asked): Asked<Export>,
) -> Result<Response, Problem> {
    let format = asked.format.unwrap_or(Format::Opml);
    let kind = match format {
        Format::Opml => "text/x-opml; charset=utf-8",
        Format::Csv => "text/csv; charset=utf-8",
        Format::Json => "application/json",
        Format::Urls => "text/plain; charset=utf-8",
    };
    let text = lists::write(&api.store.sources().await?, format, false);
    let file = format!("attachment; filename=\"sources.{format}\"");
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, file.as_str())];
    Ok((headers, text).into_response())
}
