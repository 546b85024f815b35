//! The data of the pages about servers and tools; [`offer`] has that of resources and prompts.

pub(super) mod offer;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_console::frame::Frame;
use vmcp_console::pages::catalog::{
    Catalog, CatalogFilter, PAGE_SIZE, ToolRow, Visibility, catalog as catalog_page,
};
use vmcp_console::pages::server::{
    MAX_CHANGES, MAX_OFFERS, Offer, Offers, ServerPage, server as server_page,
};
use vmcp_console::pages::tool::{Change, Reliability, ToolAccess, ToolPage, tool as tool_page};
use vmcp_console::text::{MAX_LINE, inert};
use vmcp_engine::engine::Snapshot;
use vmcp_engine::telemetry::tool_metrics::report::{MetricsQuery, report};
use vmcp_model::catalog::CatalogTool;
use vmcp_model::definition_diff::MAX_FIELDS;

use super::access::{ConsoleDoor, Visitor};
use super::answer::{indented, parsed};
use super::other_pages::client_query::ClientQuery;
use super::overview::remedy;
use crate::port::admin::diagnosis::explain_tool::{ToolExplanation, explain};
use crate::port::off_thread;

/// The query `?q=WORDS&server=NAME&from=NUMBER` of the catalog.
#[derive(Deserialize)]
pub(super) struct CatalogQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    server: String,
    #[serde(default)]
    from: usize,
}

/// The query `?server=NAME&tool=NAME&hash=HASH&done=WORD` of pages about a server or a tool; `?name=NAME`
/// names a tool as clients do.
#[derive(Deserialize)]
pub(super) struct NamedTool {
    #[serde(default)]
    pub(super) server: String,
    /// The tool's own name at its server.
    #[serde(default)]
    pub(super) tool: String,
    /// Name under which clients call the tool; counts if `tool` is empty.
    #[serde(default)]
    pub(super) name: String,
    /// Hash of the changed definition that an approval is of.
    #[serde(default)]
    pub(super) hash: String,
    done: Option<Done>,
}

/// An order that was carried out, as the next page's address names it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Done {
    /// A server is listed again.
    Refreshed,
    /// A server is connected again.
    Restarted,
    /// A changed definition is trusted.
    Approved,
    /// The figures of a tool are forgotten.
    Forgotten,
    /// A server is switched on.
    Enabled,
    /// A server is switched off.
    Disabled,
    /// The person's tokens for a server are forgotten.
    LoginForgotten,
    /// The tokens of this server's login are deleted.
    SignedOut,
}

impl Done {
    /// Returns the word for the query `?done=WORD`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Done::Refreshed => "refreshed",
            Done::Restarted => "restarted",
            Done::Approved => "approved",
            Done::Forgotten => "forgotten",
            Done::Enabled => "enabled",
            Done::Disabled => "disabled",
            Done::LoginForgotten => "loginforgotten",
            Done::SignedOut => "signedout",
        }
    }

    /// Returns the message for the next page.
    pub(super) fn notice(self) -> &'static str {
        match self {
            Done::Refreshed => "The server is being listed again.",
            Done::Restarted => "The connection is being made again.",
            Done::Forgotten => "The figures of the tool are forgotten.",
            Done::Enabled => "The server is switched on, and is being connected.",
            Done::Disabled => "The server is switched off.",
            Done::LoginForgotten => "Your tokens for the server are forgotten.",
            Done::SignedOut => "The login is deleted here, and may live on at the server.",
            Done::Approved => "The definition is approved: clients find and call the tool again.",
        }
    }
}

/// Answers `GET /console/tools`.
pub(super) async fn tools(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<CatalogQuery>,
) -> Response {
    let snapshot = door.engine().snapshot();
    let frame = door.frame(&visitor);
    // Thousands of tools take a while.
    off_thread(move || Html(catalog_page(&frame, &chosen(&snapshot, query)))).await
}

/// Returns the page of the catalog that a query asks for.
fn chosen(snapshot: &Snapshot, CatalogQuery { q, server, from }: CatalogQuery) -> Catalog {
    let tools = &snapshot.unfiltered().tools;
    let mut servers: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools {
        *servers.entry(&tool.backend).or_default() += 1;
    }
    let filter = CatalogFilter { words: q, server };
    let test = filter.test();
    let fits = |tool: &&Arc<CatalogTool>| {
        let texts: [&str; 4] = [&tool.name, &tool.definition.name, &tool.backend, &tool.description];
        test(&tool.backend, &texts)
    };
    let fitting: Vec<_> = tools.iter().filter(fits).collect();
    let first = from.min(fitting.len());
    Catalog {
        rows: fitting.iter().skip(first).take(PAGE_SIZE).map(|tool| row(snapshot, tool)).collect(),
        first,
        fitting: fitting.len(),
        total: tools.len(),
        filter,
        servers: servers.into_iter().map(|(server, tools)| (server.to_owned(), tools)).collect(),
    }
}

/// Returns what a server offers beside tools.
fn offers_of(snapshot: &Snapshot, server: &str) -> Offers {
    let catalog = snapshot.unfiltered();
    let description = |raw: &RawValue| {
        let definition = parsed(raw.get()).unwrap_or_default();
        definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let offer = |key: &str, name: &str, raw: &RawValue| Offer {
        key: key.to_owned(),
        name: name.to_owned(),
        description: description(raw),
    };
    let resources = catalog.resources.iter().filter(|it| &*it.backend == server).map(|it| &it.definition);
    let templates = catalog.templates.iter().filter(|it| &*it.backend == server).map(|it| &it.definition);
    let prompts = catalog.prompts.iter().filter(|it| &*it.backend == server);
    Offers {
        resources: resources.take(MAX_OFFERS).map(|it| offer(&it.uri, &it.name, &it.raw)).collect(),
        templates: templates.take(MAX_OFFERS).map(|it| offer(&it.uri_template, &it.name, &it.raw)).collect(),
        prompts: prompts.take(MAX_OFFERS).map(|it| offer(&it.name, &it.definition.name, &it.raw)).collect(),
    }
}

/// Answers `GET /console/server`.
pub(super) async fn server(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<NamedTool>,
) -> Response {
    let snapshot = door.engine().snapshot();
    let status = door.engine().backend_status().into_iter().find(|backend| backend.name == query.server);
    let Some(status) = status else { return unknown("server", &query.server).into_response() };
    let changes = match door.engine().changed_tools().await {
        Ok(changes) => changes.into_iter().filter(|change| change.server == query.server),
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let of_server = || snapshot.unfiltered().tools_of(&query.server);
    let configured = snapshot.config.backends.iter().find(|backend| *backend.name == *query.server);
    let data = ServerPage {
        remedy: remedy(&door, &status),
        instructions: snapshot.instructions_of(&query.server).map(str::to_owned),
        tools: of_server().take(PAGE_SIZE).map(|tool| row(&snapshot, tool)).collect(),
        total: of_server().count(),
        offers: offers_of(&snapshot, &query.server),
        is_switched_on: configured.filter(|_| door.engine().registrar().is_some()).map(|it| it.enabled),
        changes: changes.map(|change| (change.tool, change.state, change.at)).take(MAX_CHANGES).collect(),
        status,
    };
    Html(server_page(&framed(&door, &visitor, &query), &data)).into_response()
}

/// Answers `GET /console/tool`.
pub(super) async fn tool(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<NamedTool>,
    Query(client): Query<ClientQuery>,
) -> Result<Response, Unknown> {
    let snapshot = door.engine().snapshot();
    let tool = query.find(&snapshot)?;
    let changes = match door.engine().changed_tools().await {
        Ok(changes) => changes,
        Err(error) => return Ok((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()),
    };
    let (server, original) = (&*tool.backend, tool.definition.name.as_str());
    let is_this = |of: &str, name: &str| of == server && name == original;
    let change =
        changes.into_iter().find(|change| is_this(&change.server, &change.tool)).map(|change| Change {
            may_have_more: change.fields.len() >= MAX_FIELDS,
            state: change.state,
            at: change.at,
            hash: change.hash,
            fields: change.fields.into_iter().map(|field| (field.field, field.before, field.after)).collect(),
        });
    let wanted = MetricsQuery {
        server: Some(server.to_owned()),
        tool: Some(original.to_owned()),
        ..MetricsQuery::default()
    };
    let figures = report(&door.engine().total_metrics(), None, &wanted, |_| true).tools.into_iter().next();
    let written = indented(tool.definition.raw.get());
    let for_clients = indented(tool.raw.get());
    let schema = |raw: Option<&RawValue>| raw.map(|raw| parsed(raw.get()));
    let input = schema(tool.definition.input_schema.as_deref());
    let data = ToolPage {
        name: tool.name.clone(),
        server: tool.backend.to_string(),
        original: tool.definition.name.clone(),
        title: tool.title.clone(),
        steps: tool
            .steps
            .iter()
            .map(|step| (step.name.clone(), step.backend.to_string(), step.definition.name.clone()))
            .collect(),
        description: tool.description.clone(),
        visibility: visibility(&snapshot, &tool),
        tokens: tool.tokens,
        hash: tool.hash.to_string(),
        served: (for_clients != written).then_some(for_clients),
        written,
        is_schema_too_deep: input.as_ref().is_some_and(Option::is_none),
        input_schema: input.flatten().unwrap_or_default(),
        output_schema: schema(tool.definition.output_schema.as_deref()).map(Option::unwrap_or_default),
        reliability: figures.map(|figures| Reliability {
            calls: figures.call_count,
            success_rate: figures.success_rate,
            recent_success_rate: figures.recent_success_rate,
            recent_latency_ms: figures.recent_latency_ms,
            last_error: figures.last_error,
            last_error_at: figures.last_error_at,
        }),
        change,
        access: access(&door, &client, &tool).await,
    };
    Ok(Html(tool_page(&framed(&door, &visitor, &query), &data)).into_response())
}

impl NamedTool {
    /// Returns the tool that the query names.
    pub(super) fn find(&self, snapshot: &Snapshot) -> Result<Arc<CatalogTool>, Unknown> {
        let catalog = snapshot.unfiltered();
        let (found, shown) = if self.tool.is_empty() {
            (catalog.tool(&self.name), &self.name)
        } else {
            let of_server = catalog.tools_of(&self.server).find(|tool| tool.definition.name == self.tool);
            (of_server, &self.tool)
        };
        found.cloned().ok_or_else(|| unknown("tool", shown))
    }
}

/// Explains the rights of the client of a question to a tool; without a client, only the form is there.
async fn access(door: &ConsoleDoor, client: &ClientQuery, tool: &CatalogTool) -> ToolAccess {
    let snapshot = door.engine().snapshot();
    let config = snapshot.config.clone();
    if client.is_anonymous() && !snapshot.authentication.is_anonymous() {
        // No client comes without credentials here: the form asks for one first.
        return ToolAccess { question: client.question(&config, None), ..ToolAccess::default() };
    }
    let asked = match client.request(&config, &tool.name) {
        Ok(request) => explain(door.engine(), &request).await,
        Err(mistake) => Err(mistake),
    };
    match asked {
        Ok(ToolExplanation { who, is_allowed, steps, .. }) => ToolAccess {
            question: client.question(&config, None),
            who,
            is_allowed,
            steps: steps.into_iter().map(|step| (step.subject, step.passes, step.why)).collect(),
        },
        Err(mistake) => {
            ToolAccess { question: client.question(&config, Some(mistake)), ..ToolAccess::default() }
        }
    }
}

/// A name that the catalog does not have; answered with 404.
pub(super) struct Unknown {
    kind: &'static str,
    name: String,
}

/// Returns the refusal of a `name`, which may be any text.
pub(super) fn unknown(kind: &'static str, name: &str) -> Unknown {
    Unknown { kind, name: inert(name, MAX_LINE) }
}

impl IntoResponse for Unknown {
    fn into_response(self) -> Response {
        let Self { kind, name } = self;
        (StatusCode::NOT_FOUND, format!("no {kind} is called `{name}`; /console/tools lists all\n"))
            .into_response()
    }
}

fn framed(door: &ConsoleDoor, visitor: &Visitor, query: &NamedTool) -> Frame {
    Frame { notice: query.done.map(Done::notice), ..door.frame(visitor) }
}

fn row(snapshot: &Snapshot, tool: &CatalogTool) -> ToolRow {
    ToolRow {
        name: tool.name.clone(),
        server: tool.backend.to_string(),
        original: tool.definition.name.clone(),
        description: tool.description.clone(),
        visibility: visibility(snapshot, tool),
        tokens: tool.tokens,
    }
}

/// Returns how clients reach a tool.
pub(super) fn visibility(snapshot: &Snapshot, tool: &CatalogTool) -> Visibility {
    match tool {
        tool if snapshot.is_quarantined(tool) => Visibility::Quarantined,
        CatalogTool { listed: false, .. } => Visibility::Hidden,
        CatalogTool { in_lists: false, .. } => Visibility::OnlyFound,
        _ => Visibility::Found,
    }
}
