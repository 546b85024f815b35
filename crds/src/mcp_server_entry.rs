//! MCPServerEntry: an MCP server that runs elsewhere, at a URL.

mod inline_backend;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::{Isolation, ProtocolEra};

pub use self::inline_backend::InlineBackend;
use crate::fields::cel_rules::rules;
use crate::fields::references::{CaBundleReference, LocalReference, SecretKeyReference};
use crate::fields::yaml_block::Block;

/// Makes an MCP server at a URL a backend. The operator runs nothing for it.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPServerEntry",
    plural = "mcpserverentries",
    namespaced,
    schema = "disabled",
    status = "MCPServerEntryStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mcpentry",
    category = "mcp",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Transport", type_ = "string", json_path = ".spec.transport"),
    printcolumn(name = "Remote URL", type_ = "string", json_path = ".spec.remoteUrl"),
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.groupRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].message"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "(has(self.transport) && self.transport == 'websocket') == self.remoteUrl.startsWith('ws')",
    "ws:// and wss:// go with transport: websocket, http:// and https:// with the others; correct one of the two",
)])))]
pub struct MCPServerEntrySpec {
    /// MCPGroup that the server belongs to. VirtualMCPServers without a group serve all servers of the
    /// namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<LocalReference>,
    /// The only VirtualMCPServer that serves it. Default: every VirtualMCPServer that selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmcp_ref: Option<LocalReference>,
    /// URL of the MCP endpoint, http or https, or ws or wss with `transport: websocket`, without credentials,
    /// such as `https://mcp.example.com/mcp`.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^(https?|wss?)://[^\s/?#@]+([/?][^\s]*)?$"))]
    pub remote_url: String,
    /// `false`: VirtualMCPServers list the server, and neither connect, search nor call it. Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Transport that the server speaks.
    #[serde(default)]
    pub transport: RemoteTransport,
    /// Allows addresses inside the cluster or of a private network, which are refused otherwise (SSRF guard).
    #[serde(default)]
    pub allow_private_endpoint: bool,
    /// Headers sent with every request.
    #[serde(default)]
    pub header_forward: HeaderForward,
    /// Certificate authorities that the server is trusted by, besides those of the system. Only for `https`
    /// and `wss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleReference>,
    /// Clients that share a connection to the server: all of them, those of one principal, or
    /// none. Default: `session` where the server is of the legacy era and may keep state, else `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Era in which a server that speaks both is spoken to. Default: `auto`, that of the client that calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_era: Option<ProtocolEra>,
    /// `false`: the server may not ask clients (elicitation, sampling, roots). It is told that clients answer
    /// nothing, and a call that needs an answer fails. Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<bool>,
    /// MCPExternalAuthConfig with the credentials for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<LocalReference>,
    /// MCPToolConfig with a filter and overrides for the tools of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_config_ref: Option<LocalReference>,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

/// Transport of a remote server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteTransport {
    /// Streamable HTTP, in either era of the protocol.
    #[default]
    StreamableHttp,
    /// The older HTTP+SSE transport.
    Sse,
    /// Text frames of a websocket, with the subprotocol `mcp`.
    Websocket,
}

impl RemoteTransport {
    /// Returns the scheme of the addresses of this transport, in clear text and with TLS.
    pub fn schemes(self) -> [&'static str; 2] {
        match self {
            Self::StreamableHttp | Self::Sse => ["http", "https"],
            Self::Websocket => ["ws", "wss"],
        }
    }
}

/// Headers sent with every request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.addPlaintextHeaders) || !has(self.addHeadersFromSecret) || self.addHeadersFromSecret.all(header, !(header.headerName in self.addPlaintextHeaders))",
    "a header is in both addPlaintextHeaders and addHeadersFromSecret; keep one of the two",
)])))]
pub struct HeaderForward {
    /// Headers whose values are not secret. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub add_plaintext_headers: BTreeMap<String, String>,
    /// Headers whose values are in Secrets. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["headerName"])
    )]
    pub add_headers_from_secret: Vec<HeaderFromSecret>,
}

/// A header whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderFromSecret {
    /// Name of the header, such as `Authorization`.
    #[schemars(length(min = 1, max = 255))]
    pub header_name: String,
    /// Secret key that holds the whole value, such as `Bearer eyJ…`.
    pub value_secret_ref: SecretKeyReference,
}

/// Observed state of an MCPServerEntry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPServerEntryStatus {
    /// `Valid` if the entry can be used as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPServerEntryPhase>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the entry; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Result of checking an MCPServerEntry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPServerEntryPhase {
    /// The entry can be used as written.
    Valid,
    /// The entry, or something it refers to, is wrong; the condition `Valid` says what.
    Failed,
}
