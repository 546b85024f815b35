//! [`InlineBackend`]: a server at a URL that one VirtualMCPServer has, without a resource of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HeaderForward, MCPServerEntry, MCPServerEntrySpec, RemoteTransport};
use crate::fields::references::LocalReference;

/// A server at a URL. For one with secret headers or with certificates of its own, write an MCPServerEntry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineBackend {
    /// Name of the backend, which is the prefix of its tools where names clash.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// URL of the MCP endpoint, http or https, without credentials, such as `https://mcp.example.com/mcp`.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s/?#@]+([/?][^\s]*)?$"))]
    pub remote_url: String,
    /// Transport that the server speaks.
    #[serde(default)]
    pub transport: RemoteTransport,
    /// Allows addresses inside the cluster or of a private network, which are refused otherwise (SSRF guard).
    #[serde(default)]
    pub allow_private_endpoint: bool,
    /// Headers sent with every request, whose values are not secret. At most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub headers: BTreeMap<String, String>,
    /// MCPExternalAuthConfig with the credentials for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<LocalReference>,
    /// MCPToolConfig with a filter and overrides for the tools of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_config_ref: Option<LocalReference>,
}

impl InlineBackend {
    /// Returns the MCPServerEntry with the same meaning to a VirtualMCPServer of the namespace.
    pub fn as_entry(&self, namespace: &str) -> MCPServerEntry {
        let spec = MCPServerEntrySpec {
            remote_url: self.remote_url.clone(),
            transport: self.transport,
            allow_private_endpoint: self.allow_private_endpoint,
            header_forward: HeaderForward {
                add_plaintext_headers: self.headers.clone(),
                ..HeaderForward::default()
            },
            external_auth_config_ref: self.external_auth_config_ref.clone(),
            tool_config_ref: self.tool_config_ref.clone(),
            ..MCPServerEntrySpec::default()
        };
        let mut entry = MCPServerEntry::new(&self.name, spec);
        entry.metadata.namespace = Some(namespace.to_owned());
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_means_what_an_entry_of_the_same_fields_means() {
        let fields = "remoteUrl: 'https://a.example/mcp', transport: sse, allowPrivateEndpoint: true, \
                      externalAuthConfigRef: {name: login}, toolConfigRef: {name: tools}";
        let inline: InlineBackend =
            serde_saphyr::from_str(&format!("{{name: a, {fields}, headers: {{X-Team: tools}}}}")).unwrap();
        let entry: MCPServerEntrySpec = serde_saphyr::from_str(&format!(
            "{{{fields}, headerForward: {{addPlaintextHeaders: {{X-Team: tools}}}}}}"
        ))
        .unwrap();
        let made = inline.as_entry("ns");
        assert_eq!(made.spec, entry);
        assert_eq!(
            (made.metadata.name.as_deref(), made.metadata.namespace.as_deref()),
            (Some("a"), Some("ns"))
        );
    }
}
