//! [`Operation`]: a client's request or notification as OpenTelemetry's semantic conventions for MCP see it:
//! a span of kind SERVER and a duration.
//!
//! Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md (status Development).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use vmcp_backend::SessionId;
use vmcp_json::text;
use vmcp_wire::methods;

use super::calls::Outcome;
use super::traces::{self, IncomingTrace, TraceSpan};
use crate::metrics::{Metrics, ServerOperation, code_label, method_label};

/// Most characters of a client's text in an attribute.
const MAX_CHARACTERS: usize = 256;

/// The target of a request, by its kind.
#[derive(Debug, Clone, Copy)]
pub enum OperationTarget<'a> {
    /// Nothing by name.
    None,
    /// A tool that exists, by its listed name.
    Tool(&'a str),
    /// A prompt that exists, by its listed name.
    Prompt(&'a str),
    /// A tool that does not exist here. Text of the client: an attribute, never a label.
    UnknownTool(&'a str),
    /// A prompt that does not exist here. Text of the client.
    UnknownPrompt(&'a str),
    /// A resource. Text of the client.
    Resource(&'a str),
}

/// The facts of a message when it begins.
#[derive(Debug, Clone, Copy)]
pub struct OperationStart<'a> {
    /// The method, as the client wrote it.
    pub method: &'a str,
    /// The target.
    pub target: OperationTarget<'a>,
    /// The JSON-RPC id, as JSON; `None` for a notification.
    pub id: Option<&'a str>,
    /// Revision of the protocol.
    pub revision: &'static str,
    /// `tcp` or `pipe`.
    pub transport: &'static str,
    /// Version of HTTP, such as `1.1`.
    pub http_version: Option<&'static str>,
    /// The session, by its id in records; the credential of the client is another one.
    pub session: Option<SessionId>,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The client's port, where the address is that of the connection.
    pub port: Option<u16>,
    /// The trace that the request continues.
    pub trace: &'a IncomingTrace,
}

/// The reason for which a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationFailure {
    /// A result with `isError`.
    Tool,
    /// A JSON-RPC error.
    Rpc {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The client went away.
    Cancelled,
}

/// A request under way. Dropped unsettled, it counts as cancelled.
#[derive(Debug)]
pub struct Operation {
    metrics: Arc<Metrics>,
    labels: ServerOperation,
    span: TraceSpan,
    started: Instant,
    is_settled: bool,
    failure: Option<Box<OperationFailure>>,
}

impl Operation {
    /// Begins a request, in a span of its own.
    pub fn begin(metrics: &Arc<Metrics>, start: &OperationStart<'_>) -> Self {
        let method = method_label(start.method);
        let named = match start.target {
            OperationTarget::Tool(name) | OperationTarget::Prompt(name) => name,
            _ => "",
        };
        let gap = if named.is_empty() { "" } else { " " };
        let span = span(start, [method, gap, named]);
        let (mut tool, mut prompt) = (Arc::default(), Arc::default());
        match start.target {
            OperationTarget::Tool(name) => tool = metrics.tool_name(name),
            OperationTarget::Prompt(name) => prompt = metrics.prompt_name(name),
            _ => {}
        }
        let labels = ServerOperation {
            mcp_method_name: method,
            gen_ai_tool_name: tool,
            gen_ai_prompt_name: prompt,
            error_type: "",
            network_transport: start.transport,
            mcp_protocol_version: start.revision,
        };
        let (metrics, started) = (Arc::clone(metrics), Instant::now());
        Self { metrics, labels, span, started, is_settled: false, failure: None }
    }

    /// Returns the span.
    pub fn span(&self) -> &TraceSpan {
        &self.span
    }

    /// Sets how the request ends; its time ends with this value.
    pub fn settle(&mut self, failure: Option<Box<OperationFailure>>) {
        self.is_settled = true;
        self.failure = failure;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let trace = traces::exemplar(&self.span);
        let cancelled = OperationFailure::Cancelled;
        let failure = if self.is_settled { self.failure.as_deref() } else { Some(&cancelled) };
        if let Some(failure) = failure {
            self.labels.error_type = failure.error_type();
            if !self.span.is_none() {
                failure.mark(&self.span);
            }
        }
        self.metrics.count_server_operation(&self.labels, self.started.elapsed(), trace);
    }
}

impl OperationFailure {
    /// Returns `error.type`, one of a fixed set.
    fn error_type(&self) -> &'static str {
        match self {
            Self::Tool => Outcome::ToolError.label(),
            Self::Rpc { code, .. } => code_label(*code),
            Self::Cancelled => Outcome::Cancelled.label(),
        }
    }

    /// Writes the failure into a span. A client that goes away means no error of this server: its span has
    /// neither the status nor `error.type`, which go together. Spans have the code itself, labels one of a
    /// fixed set.
    pub fn mark(&self, span: &TraceSpan) {
        let (code, description) = match self {
            Self::Rpc { code, message } => (Some(code.to_string()), shortened(message).into_owned()),
            Self::Tool => (None, String::new()),
            Self::Cancelled => return,
        };
        span.fill(|open| {
            open.optional("rpc.response.status_code", code.as_deref());
            open.text("error.type", code.as_deref().unwrap_or(self.error_type()));
            open.fail(description);
        });
    }
}

/// Begins the span with all attributes at once, which costs less than to add some later.
fn span(start: &OperationStart<'_>, name: [&str; 3]) -> TraceSpan {
    traces::begin_continued("request", start.trace, |open| {
        open.rename(&name);
        open.server();
        open.text("mcp.method.name", &shortened(start.method));
        open.text("mcp.protocol.version", start.revision);
        if let Some(id) = start.id {
            open.text("jsonrpc.request.id", &shortened(&text::unquoted(id).unwrap_or(Cow::Borrowed(id))));
        }
        open.text("network.transport", start.transport);
        open.optional("network.protocol.name", (start.transport == super::TCP).then_some("http"));
        open.optional("network.protocol.version", start.http_version);
        open.optional("mcp.session.id", start.session.map(hex::encode).as_deref());
        open.shown("client.address", start.address.as_ref());
        if let Some(port) = start.port.filter(|_| start.address.is_some()) {
            open.number("client.port", port.into());
        }
        if start.method == methods::TOOLS_CALL {
            open.text("gen_ai.operation.name", "execute_tool");
        }
        match start.target {
            OperationTarget::None => {}
            OperationTarget::Tool(name) | OperationTarget::UnknownTool(name) => {
                open.text("gen_ai.tool.name", &shortened(name));
            }
            OperationTarget::Prompt(name) | OperationTarget::UnknownPrompt(name) => {
                open.text("gen_ai.prompt.name", &shortened(name));
            }
            OperationTarget::Resource(uri) => open.text("mcp.resource.uri", &shortened(uri)),
        }
    })
}

/// Returns the beginning of a text, at most 256 characters.
pub fn shortened(text: &str) -> Cow<'_, str> {
    // A character takes at least one byte.
    if text.len() <= MAX_CHARACTERS {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_its_characters() {
        for (character, count) in
            [("a", MAX_CHARACTERS), ("ä", MAX_CHARACTERS), ("😀", MAX_CHARACTERS), ("ä", 1)]
        {
            let text = character.repeat(count);
            assert!(matches!(shortened(&text), Cow::Borrowed(same) if same == text));
            let long = character.repeat(MAX_CHARACTERS + 1);
            assert_eq!(shortened(&long), format!("{}…", character.repeat(MAX_CHARACTERS)));
        }
    }

    #[test]
    fn a_flood_of_clients_texts_makes_two_series() {
        let metrics = Arc::<Metrics>::default();
        for at in 0..5_000 {
            let text = format!("made/up_{at}");
            let start = OperationStart {
                method: if at % 2 == 0 { methods::TOOLS_CALL } else { &text },
                target: OperationTarget::UnknownTool(&text),
                id: Some(&text),
                revision: "2025-11-25",
                transport: super::super::TCP,
                http_version: Some("2"),
                session: Some([u8::try_from(at % 256).unwrap(); 16]),
                address: None,
                port: None,
                trace: &IncomingTrace::default(),
            };
            let failure = OperationFailure::Rpc { code: at, message: text.clone() };
            Operation::begin(&metrics, &start).settle(Some(Box::new(failure)));
        }
        let text = metrics.encode();
        let series =
            text.lines().filter(|line| line.starts_with("mcp_server_operation_duration_seconds_count"));
        assert_eq!(series.count(), 2, "one for tools/call, one for all other methods");
        assert!(!text.contains("made/up"), "{text}");
    }
}
