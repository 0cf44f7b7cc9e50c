//! The dashboard: files that are part of the program, and one page for all its views.

use axum::Router;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::Api;
use super::problem::Problem;

#[derive(RustEmbed)]
#[folder = "web/"]
struct Files;

/// Addresses of views: the page itself finds out which.
const VIEWS: &[&str] = &[
    "/",
    "/sources",
    "/sources/{*rest}",
    "/frontier",
    "/hosts",
    "/hosts/{*rest}",
    "/articles",
    "/articles/{*rest}",
    "/sinks",
    "/sinks/{*rest}",
    "/explain",
    "/events",
    "/settings",
    "/login",
];
const ASSETS: &str = "/assets/{*file}";
const ICON: &str = "/favicon.ico";

/// Whether a path is a file or view of the dashboard.
pub(super) fn is_page(path: &str) -> bool {
    path == ASSETS || path == ICON || VIEWS.contains(&path)
}

pub(super) fn routes() -> Router<Api> {
    let views = VIEWS
        .iter()
        .fold(Router::new(), |router, view| router.route(view, get(async || file("index.html"))));
    views
        .route(ASSETS, get(async |Path(name): Path<String>| file(&name)))
        .route(ICON, get(async || file("favicon.svg")))
}

fn file(name: &str) -> Response {
    let Some(EmbeddedFile { data, metadata }) = Files::get(name) else {
        return Problem::not_found("unknown_path", "there is nothing at this path").into_response();
    };
    let hash: String = metadata.sha256_hash().iter().map(|byte| format!("{byte:02x}")).collect();
    let headers = [(header::CONTENT_TYPE, kind(name)), (header::ETAG, &format!("\"{hash}\""))];
    (headers, data.into_owned()).into_response()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
