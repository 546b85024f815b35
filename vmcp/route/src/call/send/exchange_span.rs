//! The span of one request to a backend, of kind CLIENT.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development).

use url::Url;
use vmcp_config::{Backend, Transport};

use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::telemetry;
use vmcp_engine::telemetry::metrics::method_label;
use vmcp_engine::telemetry::operations::shortened;
use vmcp_engine::telemetry::traces::TraceSpan;

/// Returns `network.transport` of a backend.
pub(super) fn transport(backend: &Backend) -> &'static str {
    match backend.transport {
        Transport::Http { .. } | Transport::Sse { .. } | Transport::WebSocket { .. } => telemetry::TCP,
        Transport::Stdio { .. } => telemetry::PIPE,
    }
}

/// Returns `network.protocol.name` of a backend; `None` for a program.
fn protocol(backend: &Backend) -> Option<&'static str> {
    match backend.transport {
        Transport::Http { .. } | Transport::Sse { .. } => Some("http"),
        Transport::WebSocket { .. } => Some("websocket"),
        Transport::Stdio { .. } => None,
    }
}

/// Begins the span: its name has the method and the tool or prompt, never a URI.
pub(super) fn begin(
    parent: &TraceSpan,
    target: &BackendTarget<'_>,
    backend: &vmcp_backend::Backend,
    snapshot: &Snapshot,
) -> TraceSpan {
    // The id of the request is noted when the request is sent.
    parent.below("exchange", |open| {
        let (mut tool, mut prompt, mut resource) = (None, None, None);
        match target.item {
            Item::Tool(_) => tool = target.subject(),
            Item::Prompt(_) => prompt = target.subject(),
            Item::Resource(uri) => resource = Some(uri),
            Item::OwnTool(_) | Item::Task { .. } | Item::Backend => {}
        }
        let name = tool.or(prompt).unwrap_or_default();
        let gap = if name.is_empty() { "" } else { " " };
        let url = backend.spec().transport.url();
        open.rename(&[method_label(&target.method), gap, name]);
        open.client();
        open.text("mcp.method.name", &shortened(&target.method));
        let revision = snapshot.revision_of(target.backend);
        open.optional("mcp.protocol.version", revision.map(shortened).as_deref());
        open.text("network.transport", transport(backend.spec()));
        open.optional("network.protocol.name", protocol(backend.spec()));
        open.optional("gen_ai.tool.name", tool);
        open.optional("gen_ai.operation.name", tool.map(|_| "execute_tool"));
        open.optional("gen_ai.prompt.name", prompt);
        open.optional("mcp.resource.uri", resource.map(shortened).as_deref());
        open.optional("server.address", url.and_then(Url::host_str));
        if let Some(port) = url.and_then(Url::port_or_known_default) {
            open.number("server.port", port.into());
        }
    })
}
