//! The data of the pages about servers and tools.

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_console::frame::Frame;
use vmcp_console::pages::catalog::{PAGE_SIZE, ToolRow, Visibility, catalog as catalog_page};
use vmcp_console::pages::server::{ServerPage, server as server_page};
use vmcp_console::pages::tool::{Change, Reliability, ToolPage, tool as tool_page};
use vmcp_engine::engine::Snapshot;
use vmcp_engine::telemetry::tool_metrics::report::{MetricsQuery, report};
use vmcp_json::text::without_half_surrogates;
use vmcp_model::catalog::CatalogTool;
use vmcp_model::definition_diff::MAX_FIELDS;

use super::access::{ConsoleDoor, Visitor};
use super::actions::Done;
use super::overview::remedy;

/// The query `?from=NUMBER` of the catalog.
#[derive(Deserialize)]
pub(super) struct CatalogQuery {
    #[serde(default)]
    from: usize,
}

/// The query `?server=NAME&tool=NAME&hash=HASH&done=WORD` of pages about a server or a tool.
#[derive(Deserialize)]
pub(super) struct NamedTool {
    #[serde(default)]
    pub(super) server: String,
    /// The tool's own name at its server.
    #[serde(default)]
    pub(super) tool: String,
    /// Hash of the changed definition that an approval is of.
    #[serde(default)]
    pub(super) hash: String,
    done: Option<Done>,
}

/// Answers `GET /console/tools`.
pub(super) async fn tools(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<CatalogQuery>,
) -> Html<String> {
    let snapshot = door.engine().snapshot();
    let tools = &snapshot.unfiltered().tools;
    let from = query.from.min(tools.len());
    let rows: Vec<_> = tools.iter().skip(from).take(PAGE_SIZE).map(|tool| row(&snapshot, tool)).collect();
    Html(catalog_page(&door.frame(&visitor), &rows, from, tools.len()))
}

/// Answers `GET /console/server`.
pub(super) async fn server(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<NamedTool>,
) -> Response {
    let snapshot = door.engine().snapshot();
    let status = door.engine().backend_status().into_iter().find(|backend| backend.name == query.server);
    let Some(status) = status else { return unknown("server", &query.server) };
    let of_server = || snapshot.unfiltered().tools_of(&query.server);
    let data = ServerPage {
        remedy: remedy(&door, &status),
        instructions: snapshot.instructions_of(&query.server).map(str::to_owned),
        tools: of_server().take(PAGE_SIZE).map(|tool| row(&snapshot, tool)).collect(),
        total: of_server().count(),
        status,
    };
    Html(server_page(&framed(&door, &visitor, &query), &data)).into_response()
}

/// Answers `GET /console/tool`.
pub(super) async fn tool(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<NamedTool>,
) -> Response {
    let snapshot = door.engine().snapshot();
    let Some(tool) = find(&snapshot, &query) else { return unknown("tool", &query.tool) };
    let changes = match door.engine().changed_tools().await {
        Ok(changes) => changes,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let is_this = |server: &str, name: &str| server == query.server && name == query.tool;
    let change =
        changes.into_iter().find(|change| is_this(&change.server, &change.tool)).map(|change| Change {
            may_have_more: change.fields.len() >= MAX_FIELDS,
            state: change.state,
            at: change.at,
            hash: change.hash,
            fields: change.fields.into_iter().map(|field| (field.field, field.before, field.after)).collect(),
        });
    let wanted = MetricsQuery {
        server: Some(query.server.clone()),
        tool: Some(query.tool.clone()),
        ..MetricsQuery::default()
    };
    let figures = report(&door.engine().total_metrics(), None, &wanted, |_| true).tools.into_iter().next();
    let written = indented(tool.definition.raw.get());
    let served = indented(tool.raw.get());
    let schema = |text: Option<&str>| text.map(|text| parsed(text).unwrap_or_default());
    let data = ToolPage {
        name: tool.name.clone(),
        server: tool.backend.to_string(),
        original: tool.definition.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        visibility: visibility(&snapshot, &tool),
        tokens: tool.tokens,
        hash: tool.hash.to_string(),
        served: (served != written).then_some(served),
        written,
        input_schema: schema(tool.definition.input_schema.as_deref().map(RawValue::get)).unwrap_or_default(),
        output_schema: schema(tool.definition.output_schema.as_deref().map(RawValue::get)),
        reliability: figures.map(|figures| Reliability {
            calls: figures.call_count,
            success_rate: figures.success_rate,
            recent_success_rate: figures.recent_success_rate,
            recent_latency_ms: figures.recent_latency_ms,
            last_error: figures.last_error,
            last_error_at: figures.last_error_at,
        }),
        change,
    };
    Html(tool_page(&framed(&door, &visitor, &query), &data)).into_response()
}

/// Returns the tool that a query names.
pub(super) fn find(snapshot: &Snapshot, query: &NamedTool) -> Option<std::sync::Arc<CatalogTool>> {
    let mut tools = snapshot.unfiltered().tools_of(&query.server);
    tools.find(|tool| tool.definition.name == query.tool).cloned()
}

/// Answers 404 for a name that the catalog does not have.
pub(super) fn unknown(kind: &str, name: &str) -> Response {
    let name = vmcp_console::text::inert(name, vmcp_console::text::MAX_LINE);
    (StatusCode::NOT_FOUND, format!("no {kind} is called `{name}`; {} lists all\n", "/console/tools"))
        .into_response()
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

/// Parses JSON of a server; half a surrogate pair, which no Rust string can hold, is replaced.
pub(super) fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(without_half_surrogates(text).as_deref().unwrap_or(text)).ok()
}

/// Indents JSON; a text that cannot be parsed stays as it is.
pub(super) fn indented(text: &str) -> String {
    parsed(text)
        .and_then(|value| serde_json::to_string_pretty(&value).ok())
        .unwrap_or_else(|| text.to_owned())
}
