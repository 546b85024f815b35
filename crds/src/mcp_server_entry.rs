//! MCPServerEntry: an MCP server that runs elsewhere.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::rules;
use crate::fields::references::{LocalReference, SecretKeyReference};

/// An MCP server at a URL. No pod belongs to it.
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
pub struct MCPServerEntrySpec {
    /// The MCPGroup that it belongs to. Servers without a group of their own serve all backends of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<LocalReference>,
    /// Address of the endpoint, http or https, without credentials.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s/?#@]+([/?][^\s]*)?$"))]
    pub remote_url: String,
    /// How it speaks.
    #[serde(default)]
    pub transport: RemoteTransport,
    /// Allow an address inside of the cluster or of a private network.
    #[serde(default)]
    pub allow_private_endpoint: bool,
    /// Headers sent with every request.
    #[serde(default)]
    pub header_forward: HeaderForward,
}

/// How a remote server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteTransport {
    /// Streamable HTTP, of either protocol era.
    #[default]
    StreamableHttp,
    /// The older HTTP+SSE transport.
    Sse,
}

/// Headers sent with every request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "!has(self.addPlaintextHeaders) || !has(self.addHeadersFromSecret) || self.addHeadersFromSecret.all(header, !(header.headerName in self.addPlaintextHeaders))",
    "a header is in both addPlaintextHeaders and addHeadersFromSecret; keep one of the two",
)])))]
pub struct HeaderForward {
    /// Headers that may be read by anybody.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub add_plaintext_headers: BTreeMap<String, String>,
    /// Headers whose values are in Secrets.
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
    /// Where the value is: all of it, such as `Bearer …`.
    pub value_secret_ref: SecretKeyReference,
}

/// How an MCPServerEntry is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPServerEntryStatus {
    /// Whether it can be used as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPServerEntryPhase>,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is true of it.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Whether an MCPServerEntry can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPServerEntryPhase {
    /// It can.
    Valid,
    /// Something that it says or refers to is wrong.
    Failed,
}
