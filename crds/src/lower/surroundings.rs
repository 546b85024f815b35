//! Input of the lowering besides the VirtualMCPServer itself: the objects that it refers to, already read.

use std::collections::BTreeMap;

use crate::fields::references::SecretKeyReference;
use crate::mcp_server_entry::RemoteTransport;
use crate::mcp_telemetry_config::MCPTelemetryConfigSpec;

/// An MCP server behind a VirtualMCPServer: an MCPServer or an MCPServerEntry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The resource's name.
    pub name: String,
    /// Its endpoint.
    pub url: String,
    /// How it speaks.
    pub transport: RemoteTransport,
    /// Sent with every request.
    pub headers: BTreeMap<String, HeaderValue>,
    /// `false`: listed, but neither connected nor searched nor called, and without its secret headers; for one that refers
    /// to a Secret that is not there.
    pub enabled: bool,
}

/// The value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// Anybody may read it.
    Plain(String),
    /// It is in a Secret.
    Secret(SecretKeyReference),
}

/// The service that makes a server's vectors, when the operator runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingService {
    /// Its base URL.
    pub endpoint: String,
    /// The model that it serves.
    pub model: Option<String>,
}

/// What else `vmcp.yaml` is made of.
#[derive(Debug, Clone, Default)]
pub struct Surroundings<'a> {
    /// The backends, in any order; each name once.
    pub backends: &'a [Backend],
    /// What the server's MCPTelemetryConfig says.
    pub telemetry: Option<&'a MCPTelemetryConfigSpec>,
    /// With a managed or referenced embedding service.
    pub embedding_service: Option<&'a EmbeddingService>,
}
