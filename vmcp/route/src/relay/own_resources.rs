//! Reads own resources of vmcp: its configuration, its state, its servers and tools, as the caller may see
//! them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;
use vmcp_engine::access::policy::Decision;
use vmcp_engine::optim::own_resources::OwnResource;
use vmcp_engine::telemetry::calls::{Origin, Outcome};

use crate::answer::Answer;
use crate::call;
use crate::caller::CallContext;
use crate::own_tools::listings::get_tool_schema::{self, Answered};
use crate::own_tools::listings::list_mcp_servers::{self, ListedServer};

/// The port and the servers. No address, argument or header: they may hold secrets.
#[derive(Serialize)]
struct ConfigContent {
    daemon_port: u16,
    mcp_servers: Vec<ConfiguredServer>,
}

#[derive(Serialize)]
struct ConfiguredServer {
    name: String,
    transport: String,
}

#[derive(Serialize)]
struct StatusContent {
    running: bool,
    version: &'static str,
    http_port: u16,
    connected_servers: usize,
    total_tools: usize,
    servers: Vec<ListedServer>,
}

#[derive(Serialize)]
struct ServerContent {
    #[serde(flatten)]
    server: ListedServer,
    /// Names of the tools that the caller may call.
    tools: Vec<String>,
}

/// Content of an own resource.
#[derive(Serialize)]
#[serde(untagged)]
enum OwnContent {
    Config(ConfigContent),
    Status(StatusContent),
    Server(Box<ServerContent>),
    Tool(Box<Answered>),
}

/// Answers `resources/read` of an own resource; `None` if this caller has no such resource. The policy must
/// allow the tool that tells the same, with the arguments of that call.
pub(super) fn read(context: CallContext<'_>, uri: &str, resource: OwnResource<'_>) -> Option<Answer> {
    let told = recorded(context, uri, resource, || content(context, resource))?;
    let text = serde_json::to_string(&told).ok()?;
    let contents = json!({ "contents": [{ "uri": uri, "mimeType": "application/json", "text": text }] });
    Some(Answer::own(to_raw_value(&contents).unwrap_or_default()))
}

/// Answers a subscription to an own resource with a digest of its content; `None` if this caller has no such
/// resource.
pub(super) fn subscribe(context: CallContext<'_>, uri: &str, resource: OwnResource<'_>) -> Option<u64> {
    recorded(context, uri, resource, || digest(context, resource))
}

/// Reads an own resource on record; `None` if the policy denies it, or `read` finds nothing.
fn recorded<T>(
    context: CallContext<'_>,
    uri: &str,
    resource: OwnResource<'_>,
    read: impl FnOnce() -> Option<T>,
) -> Option<T> {
    call::authorize_own(context, resource.right(), Some(&arguments(resource))).ok()?;
    let mut recorder = context.start_record(Origin::Own(resource.right()));
    recorder.keep_arguments(Some(&json!({ "uri": uri }).to_string()));
    let read = read();
    recorder.settle(if read.is_some() { Outcome::Ok } else { Outcome::ToolError });
    read
}

/// True if the policies in force let the caller read an own resource.
pub(super) fn is_allowed(context: CallContext<'_>, resource: OwnResource<'_>) -> bool {
    let decision = call::decide_own(context, resource.right(), Some(&arguments(resource)));
    matches!(decision, Decision::Allow { .. })
}

/// Returns a digest of the content, which tells one content from the next within this process.
pub(super) fn digest(context: CallContext<'_>, resource: OwnResource<'_>) -> Option<u64> {
    let text = serde_json::to_string(&content(context, resource)?).ok()?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Some(hasher.finish())
}

/// Returns the arguments of the call that tells the same: policies may read them.
fn arguments(resource: OwnResource<'_>) -> String {
    match resource {
        OwnResource::Tool(name) => json!({ "tool_name": name }).to_string(),
        OwnResource::Config | OwnResource::Status | OwnResource::Server(_) => "{}".to_owned(),
    }
}

fn content(context: CallContext<'_>, resource: OwnResource<'_>) -> Option<OwnContent> {
    let view = context.view;
    let servers = |only: Option<&str>| list_mcp_servers::servers(context, view, only);
    let port = context.snapshot.config.server.listen.port();
    Some(match resource {
        OwnResource::Config => {
            let of =
                |server: ListedServer| ConfiguredServer { name: server.name, transport: server.transport };
            let mcp_servers = servers(None).into_iter().map(of).collect();
            OwnContent::Config(ConfigContent { daemon_port: port, mcp_servers })
        }
        OwnResource::Status => {
            let servers = servers(None);
            OwnContent::Status(StatusContent {
                running: true,
                version: env!("CARGO_PKG_VERSION"),
                http_port: port,
                connected_servers: servers.iter().filter(|server| server.connected).count(),
                total_tools: view.visible_tools,
                servers,
            })
        }
        OwnResource::Server(name) => {
            let server = servers(Some(name)).into_iter().next()?;
            let tools = view.tools().filter(|tool| *tool.backend == *name);
            let tools = tools.map(|tool| tool.name.clone()).collect();
            OwnContent::Server(Box::new(ServerContent { server, tools }))
        }
        OwnResource::Tool(name) => {
            OwnContent::Tool(Box::new(get_tool_schema::definition(context, view.tool(name)?)))
        }
    })
}
