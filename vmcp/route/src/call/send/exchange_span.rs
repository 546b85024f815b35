//! The span of one request to a backend, of kind CLIENT.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development).

use vmcp_backend::{Backend, ServerNetwork};
use vmcp_wire::era::Revision;

use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::metrics::method_label;
use vmcp_engine::telemetry::operations::shortened;
use vmcp_engine::telemetry::traces::{OpenSpan, TraceSpan};

/// Writes the attributes of the network between vmcp and a backend.
pub(super) fn fill_transport(open: &mut OpenSpan, network: &ServerNetwork) {
    open.text("network.transport", network.transport);
    open.optional("network.protocol.name", Some(network.protocol).filter(|name| !name.is_empty()));
}

/// Begins the span: its name has the method and the tool or prompt, never a URI.
pub(super) fn begin(
    parent: &TraceSpan,
    target: &BackendTarget<'_>,
    backend: &Backend,
    revision: Option<Revision>,
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
        let network = backend.network();
        open.rename(&[method_label(&target.method), gap, name]);
        open.client();
        open.text("mcp.method.name", &shortened(&target.method));
        open.optional("mcp.protocol.version", revision.map(Revision::as_str));
        fill_transport(open, network);
        open.optional("gen_ai.tool.name", tool);
        open.optional("gen_ai.operation.name", tool.map(|_| "execute_tool"));
        open.optional("gen_ai.prompt.name", prompt);
        open.optional("mcp.resource.uri", resource.map(shortened).as_deref());
        if let Some(port) = network.port {
            open.text("server.address", &network.address);
            open.number("server.port", port.into());
        }
    })
}
