//! The span of one request to a backend, of kind CLIENT.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development).

use tracing::field::Empty;
use tracing::{Span, info_span};
use vmcp_config::{Backend, Transport};

use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry;
use vmcp_engine::telemetry::metrics::method_label;
use vmcp_engine::telemetry::operations::shortened;

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
pub(super) fn begin(parent: &Span, target: &BackendTarget<'_>, backend: &Backend) -> Span {
    let method = method_label(&target.method);
    let subject = target.subject().filter(|_| matches!(target.item, Item::Tool(_) | Item::Prompt(_)));
    let name = subject.unwrap_or_default();
    let gap = if name.is_empty() { "" } else { " " };
    let span = info_span!(
        parent: parent,
        "exchange",
        otel.name = %format_args!("{method}{gap}{name}"),
        otel.kind = "client",
        mcp.method.name = &*shortened(&target.method),
        mcp.protocol.version = Empty,
        network.transport = transport(backend),
        network.protocol.name = Empty,
        jsonrpc.request.id = Empty,
        gen_ai.tool.name = Empty,
        gen_ai.operation.name = Empty,
        gen_ai.prompt.name = Empty,
        mcp.resource.uri = Empty,
        server.address = Empty,
        server.port = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    match target.item {
        Item::Tool(_) => {
            span.record("gen_ai.tool.name", name);
            span.record("gen_ai.operation.name", "execute_tool");
        }
        Item::Prompt(_) => {
            span.record("gen_ai.prompt.name", name);
        }
        Item::Resource(uri) => {
            span.record("mcp.resource.uri", &*shortened(uri));
        }
        Item::OwnTool(_) | Item::Task { .. } | Item::Backend => {}
    }
    if let Some(protocol) = protocol(backend) {
        span.record("network.protocol.name", protocol);
    }
    if let Some(url) = backend.transport.url() {
        span.record("server.address", url.host_str());
        span.record("server.port", url.port_or_known_default());
    }
    span
}

/// Records the revision of the protocol that the backend spoke when it was listed.
pub(super) fn record_revision(span: &Span, backend: &vmcp_backend::Backend) {
    if span.is_disabled() {
        return;
    }
    let discovered = backend.discovered();
    let revision = discovered.borrow().as_ref().and_then(|listed| listed.revision.clone());
    if let Some(revision) = revision {
        span.record("mcp.protocol.version", &*shortened(&revision));
    }
}
