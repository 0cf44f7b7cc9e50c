//! Handing addresses to the queue, one or many.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::asked::{Asked, Body, Nothing};
use crate::api::problem::Problem;
use crate::app::submit;
use crate::fetch::Guard;
use crate::frontier::{SubmitReport, TaskFilter, admit};
use crate::model::{Kind, NewTask, Origin, Source, SourceId};
use crate::store::SourceError;

/// An address to ask for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct Submission {
    pub(super) url: String,
    /// The source that it belongs to, by name or id.
    pub(super) source: Option<String>,
    /// The same.
    pub(super) source_id: Option<String>,
    /// feed, sitemap, spider or manual; manual when nothing is said.
    #[schema(value_type = Option<String>)]
    pub(super) origin: Option<Origin>,
    /// 1 to 10, 10 is served first; that of the source, else 5, when nothing or less is said.
    pub(super) priority: Option<i64>,
    /// article, feed or sitemap; article when nothing is said.
    #[schema(value_type = Option<String>)]
    pub(super) kind: Option<Kind>,
}

/// The sources that are named, by name.
pub(super) type Named = HashMap<String, (SourceId, u8)>;

impl Submission {
    pub(super) fn bare(url: String) -> Self {
        Self { url, source: None, source_id: None, origin: None, priority: None, kind: None }
    }

    pub(super) fn source(&self) -> Option<&String> {
        self.source.as_ref().or(self.source_id.as_ref()).filter(|name| !name.is_empty())
    }

    pub(super) fn task(self, named: &Named) -> Result<NewTask, Problem> {
        let source = self.source().and_then(|name| named.get(name)).copied();
        let usual = source.map_or(Source::DEFAULT_PRIORITY, |(_, priority)| priority);
        let priority = match self.priority.filter(|given| *given > 0) {
            Some(given) => {
                u8::try_from(given).ok().filter(|given| *given <= 10).ok_or_else(|| {
                    let message = "must be from 1 to 10";
                    Problem::unusable("bad_priority", message).about("priority", message)
                })?
            }
            None => usual,
        };
        let kind = self.kind.unwrap_or(Kind::Article);
        if !matches!(kind, Kind::Article | Kind::Feed | Kind::Sitemap) {
            let message = "is article, feed or sitemap";
            return Err(Problem::unusable("bad_kind", message).about("kind", message));
        }
        let task = NewTask::manual(self.url, kind, source.map(|(id, _)| id), priority);
        Ok(NewTask { origin: self.origin.unwrap_or(Origin::Manual), ..task })
    }
}

/// The sources of these names, which have to be there.
pub(super) async fn named(
    api: &Api,
    names: impl IntoIterator<Item = &String>,
) -> Result<Named, Problem> {
    let mut named = Named::new();
    for name in names {
        let (source, _) = match api.store.source(name).await {
            Ok(found) => found,
            Err(error @ SourceError::Unknown(_)) => {
                let detail = error.to_string();
                return Err(
                    Problem::unusable("unknown_source", detail.clone()).about("source", detail)
                );
            }
            Err(error) => return Err(error.into()),
        };
        named.insert(name.clone(), (source.id, source.spec.priority));
    }
    Ok(named)
}

/// What became of an address.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct Submitted {
    /// Its id in the queue.
    id: Option<String>,
    /// new, known or raised.
    result: String,
    message: String,
}

/// Hands an address to the queue
#[utoipa::path(post, path = "/frontier/submit", tag = "frontier", request_body = Submission,
    responses((status = 201, body = Submitted)))]
pub(in crate::api) async fn submit(
    State(api): State<Api>,
    _: Asked<Nothing>,
    Body(given): Body<Submission>,
) -> Result<Response, Problem> {
    let named = named(&api, given.source()).await?;
    let task = given.task(&named)?;
    let refused = |code: &str, reason: &str| {
        Problem::unusable(code, reason.to_owned()).about("url", reason.to_owned())
    };
    let known = admit(&task, store_rules(&api)).map_err(|it| refused(it.code, &it.reason))?;
    let guard = Guard::new(&api.config.fetch);
    let SubmitReport { new, raised, rejected, .. } =
        submit::submit(&*api.store, &guard, vec![task]).await?;
    if let Some(it) = rejected.first() {
        return Err(refused(it.code, &it.reason));
    }
    let filter = TaskFilter {
        host: Some(known.host),
        hash: Some(known.hash.head()),
        limit: 10,
        ..TaskFilter::default()
    };
    let tasks = api.store.list(filter).await?;
    let (result, message) = match (new, raised) {
        (1.., _) => ("new", "the address is in the queue"),
        (_, 1..) => ("raised", "the address was known and is served earlier now"),
        _ => ("known", "the address was known"),
    };
    let id = tasks.iter().find(|it| it.url_hash == known.hash).map(|it| it.id.to_string());
    let (result, message) = (result.to_owned(), message.to_owned());
    Ok((StatusCode::CREATED, Json(Submitted { id, result, message })).into_response())
}

fn store_rules(api: &Api) -> &crate::frontier::Rules {
    api.store.rules()
}
