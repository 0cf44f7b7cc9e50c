//! The OpenAPI document: what holds for all paths is said here once.

use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{OpenApi as _, PartialSchema as _};

use super::guard::{Access, access};
use super::listing::LINES;
use super::problem::{FieldError, Problem};

/// The scheme by which tokens are sent.
const SCHEME: &str = "token";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Feedmill",
        description = "Everything Feedmill knows. Lists are pages of `items` with the `cursor` of the next one as `next`, or all of it as lines with `Accept: application/x-ndjson`.",
        license(name = "MIT OR Apache-2.0"),
    ),
    components(schemas(Problem, FieldError))
)]
struct Base;

/// The document without its paths.
pub(super) fn base() -> OpenApi {
    let mut said = Base::openapi();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("made by `feedmill token create`"))
        .build();
    let components = said.components.get_or_insert_default();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme));
    said
}

/// Adds to every operation who may use it, and how it may fail.
pub(super) fn complete(said: &mut OpenApi) {
    for (path, item) in &mut said.paths.paths {
        for (method, operation) in operations(item) {
            let Some(operation) = operation else { continue };
            let access = access(method, path);
            if let Access::Scope(scope) = access {
                let needs = SecurityRequirement::new(SCHEME, [scope.as_str()]);
                operation.security = Some(vec![needs]);
            }
            let known = &mut operation.responses.responses;
            for (status, why) in failures(method, access) {
                known.entry((*status).to_owned()).or_insert_with(|| problem(why));
            }
            if method == "GET" {
                let unchanged = "It is what `If-None-Match` names";
                let unchanged = ResponseBuilder::new().description(unchanged).build();
                known.insert("304".to_owned(), unchanged.into());
                known.get_mut("200").into_iter().for_each(also_as_lines);
            }
        }
    }
}

fn operations(item: &mut PathItem) -> [(&'static str, Option<&mut Operation>); 5] {
    [
        ("GET", item.get.as_mut()),
        ("PUT", item.put.as_mut()),
        ("POST", item.post.as_mut()),
        ("PATCH", item.patch.as_mut()),
        ("DELETE", item.delete.as_mut()),
    ]
}

/// Every list can be had as lines.
fn also_as_lines(answer: &mut RefOr<utoipa::openapi::Response>) {
    let RefOr::T(answer) = answer else { return };
    let Some(RefOr::T(json)) = answer.content.get("application/json") else { return };
    let Some(RefOr::Ref(schema)) = &json.schema else { return };
    let name = schema.ref_location.rsplit('/').next().unwrap_or_default();
    if name == "Listed" || name.starts_with("Page_") {
        let line = ContentBuilder::new().schema(Some(String::schema())).build();
        answer.content.insert(LINES.to_owned(), line.into());
    }
}

fn problem(why: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response =
        ResponseBuilder::new().description(why).content("application/problem+json", content);
    response.build().into()
}

/// How an operation may fail, beside its own ways.
fn failures(method: &str, access: Access) -> Vec<&'static (&'static str, &'static str)> {
    const ALWAYS: &[(&str, &str)] = &[
        ("400", "The request cannot be read"),
        ("421", "The server is not called by that name"),
        ("429", "Too many requests"),
        ("503", "The database cannot be used now"),
    ];
    const SCOPED: &[(&str, &str)] =
        &[("401", "There is no token, or it is nobody's"), ("403", "The token may not do this")];
    const BODIES: &[(&str, &str)] = &[
        ("408", "The body did not arrive in time"),
        ("413", "The body is too large"),
        ("415", "The body is not JSON"),
        ("422", "What the body says cannot be"),
    ];
    let scoped = if matches!(access, Access::Scope(_)) { SCOPED } else { &[] };
    let by_method = if method == "GET" { &[] } else { BODIES };
    ALWAYS.iter().chain(scoped).chain(by_method).collect()
}
