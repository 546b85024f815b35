//! `GET /tools`: tools by topic over plain HTTP, for programs that are not MCP clients. Answers from the
//! snapshot alone, with what the caller's view shows; no backend is asked.

mod query;
mod selection;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use vmcp_config::Config;
use vmcp_model::topics::Topics;

use crate::transport::http::exchange::{PlainApi, Response};
use crate::transport::http::respond;
use query::ToolsQuery;
use selection::Selection;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::{Engine, Snapshot};
use vmcp_engine::telemetry::metrics::ContextLabels;
use vmcp_route::{CallContext, Caller};

/// Paths of the API: the list, topics of a message, figures, and their reset.
const PATHS: [&str; 4] = ["/tools", "/tools/contexts", "/tools/metrics", "/tools/metrics/reset"];

/// The API.
pub(crate) struct ToolsApi {
    engine: Engine,
}

impl ToolsApi {
    /// Serves the tools of `engine`.
    pub(crate) fn new(engine: Engine) -> ToolsApi {
        ToolsApi { engine }
    }
}

impl PlainApi for ToolsApi {
    const NAME: &'static str = "GET /tools";

    fn serves(config: &Config, path: &str) -> bool {
        config.optimizer.discovery.enabled && PATHS.contains(&path)
    }

    fn request_name(head: &Parts) -> Cow<'static, str> {
        Cow::Owned(format!("{} {}", head.method, head.uri.path()))
    }

    async fn answer(
        &self,
        head: &Parts,
        _: &Bytes,
        principal: &Principal,
        snapshot: &Arc<Snapshot>,
    ) -> Response {
        let is_get = matches!(head.method, Method::GET | Method::HEAD);
        match head.uri.path() {
            "/tools/metrics/reset" if head.method == Method::POST => self.reset(principal),
            "/tools/metrics/reset" => not_allowed("POST"),
            _ if !is_get => not_allowed("GET"),
            "/tools/metrics" => respond::document(StatusCode::OK, &self.engine.topic_usage().report()),
            path => match ToolsQuery::read(head.uri.query().unwrap_or_default()) {
                Err(message) => failure(StatusCode::BAD_REQUEST, "bad_request", message),
                Ok(query) if path == "/tools/contexts" => {
                    self.engine.prepare(snapshot, principal).await;
                    let view = snapshot.view(principal);
                    let backends = view.tools().map(|tool| &*tool.backend);
                    let topics = with_servers(&snapshot.tagged_tools().topics, backends);
                    let contexts = topics.of_message(query.message.as_deref().unwrap_or_default());
                    respond::document(StatusCode::OK, &DetectedContexts { contexts })
                }
                Ok(query) => self.list(&query, principal, snapshot).await,
            },
        }
    }
}

impl ToolsApi {
    async fn list(&self, query: &ToolsQuery, principal: &Principal, snapshot: &Arc<Snapshot>) -> Response {
        let Some(principal) = narrowed(principal, query, &snapshot.config) else {
            return failure(
                StatusCode::FORBIDDEN,
                "forbidden",
                "userId names no profile of yours".to_owned(),
            );
        };
        let fresh = self.engine.wait_for_first_listings().await.then(|| self.engine.snapshot());
        let snapshot = fresh.as_ref().unwrap_or(snapshot);
        self.engine.prepare(snapshot, &principal).await;
        let (view, tools) = (snapshot.view(&principal), snapshot.tagged_tools());
        let documents = view.documents().into_iter();
        let tagged = |at| Some((&**view.document(at)?, tools.get(at)?));
        // Programs hand the answer to a model API, which refuses it as a whole for one faulty definition.
        let tagged: Vec<_> = documents.filter_map(tagged).filter(|(tool, _)| tool.in_lists).collect();
        let discovery = &snapshot.config.optimizer.discovery;
        let topics = with_servers(&tools.topics, tagged.iter().map(|(tool, _)| &*tool.backend));
        let mut selection = Selection::choose(&tagged, query, &topics, discovery.context_filtering);
        if let Some(message) = query.message.as_deref().filter(|_| discovery.llm_fallback)
            && selection.found_no_context()
        {
            let caller = Caller { principal, ..Caller::default() };
            let context = CallContext { engine: &self.engine, snapshot, view: &view, caller: &caller };
            let chosen = vmcp_route::tools_by_model(context, message).await;
            selection.choose_by_model(&tagged, chosen, query.limit);
        }
        if let Some(size) = selection.size() {
            self.engine.topic_usage().count(size, discovery.metrics_mode, self.engine.metrics());
        }
        for context in selection.contexts().filter(|context| topics.knows(context)) {
            let labels = ContextLabels { context: context.to_owned() };
            self.engine.metrics().tools_contexts.get_or_create(&labels).inc();
        }
        respond::document(StatusCode::OK, &selection.answer())
    }

    /// Begins the figures again. Where clients have identities, that is for operators, at the admin port.
    fn reset(&self, principal: &Principal) -> Response {
        if matches!(principal.identity, Identity::Known(_)) {
            let words = "figures are reset by operators: `vmcp tools metrics --reset`";
            return failure(StatusCode::FORBIDDEN, "forbidden", words.to_owned());
        }
        self.engine.topic_usage().reset();
        respond::document(StatusCode::OK, &Message { message: "Metrics reset successfully" })
    }
}

/// Returns the topics with one for each server that the caller may see: no other server is named.
fn with_servers<'a>(topics: &Topics, backends: impl Iterator<Item = &'a str>) -> Topics {
    let servers: BTreeSet<&str> = backends.collect();
    topics.clone().with_servers(servers.into_iter())
}

/// Returns the principal, narrowed to the profile that `userId` names. Any other name belongs to another
/// client, whose rights this caller does not have.
fn narrowed(principal: &Principal, query: &ToolsQuery, config: &Config) -> Option<Principal> {
    let Some(user) = &query.user_id else { return Some(principal.clone()) };
    let (profile, _) = config.profiles.get_key_value(user.as_str())?;
    Some(Principal { profile: Some(Arc::clone(profile)), ..principal.clone() })
}

#[derive(Serialize)]
struct DetectedContexts<'a> {
    contexts: Vec<&'a str>,
}

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

#[derive(Serialize)]
struct Failure {
    error: &'static str,
    message: String,
}

fn failure(status: StatusCode, error: &'static str, message: String) -> Response {
    respond::document(status, &Failure { error, message })
}

fn not_allowed(method: &'static str) -> Response {
    let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("use {method}"));
    response.headers_mut().insert(http::header::ALLOW, http::HeaderValue::from_static(method));
    response
}

#[cfg(test)]
mod tests;
