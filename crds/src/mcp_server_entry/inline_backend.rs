//! [`InlineBackend`]: a server at a URL that one VirtualMCPServer has, without a resource of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{HeaderForward, MCPServerEntry, MCPServerEntrySpec, RemoteTransport};
use crate::fields::references::LocalReference;
use crate::problem::Problem;

/// A server at a URL. For one with secret headers or with certificates of its own, write an MCPServerEntry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineBackend {
    /// Name of the backend, which is the prefix of its tools where names clash.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// URL of the MCP endpoint, http or https, or ws or wss with `transport: websocket`, without credentials,
    /// such as `https://mcp.example.com/mcp`.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^(https?|wss?)://[^\s/?#@]+([/?][^\s]*)?$"))]
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
    /// Refuses a name and a URL that a definition older than this program lets pass. `path` is the backend's.
    pub(crate) fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let name = &self.name;
        let is_label = (1..=63).contains(&name.len())
            && name.bytes().all(|byte| is_inner(&byte))
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_label {
            let remedy =
                "use up to 63 lowercase letters, digits and hyphens, a letter or digit first and last";
            problems.push(Problem::new(format!("{path}.name"), format!("`{name}` is no name"), remedy));
        }
        let [plain, secure] = self.transport.schemes();
        let url = Url::parse(&self.remote_url).ok();
        let url = url.filter(|url| url.scheme() == plain || url.scheme() == secure);
        if url.is_none_or(|url| !url.username().is_empty() || url.password().is_some()) {
            let message = format!(
                "is no URL of the schemes {plain} or {secure}, which `transport` takes, without credentials"
            );
            let remedy = format!(
                "correct it, such as `{secure}://mcp.example.com/mcp`, or the transport; an MCPServerEntry takes \
                 secret headers"
            );
            problems.push(Problem::new(format!("{path}.remoteUrl"), message, remedy));
        }
    }

    /// Returns the reason of a refused entry with the fields as a VirtualMCPServer has them, if the entry
    /// stands for one of its `backends`.
    pub fn in_server(backends: &[InlineBackend], name: &str, reason: String) -> String {
        let Some(index) = backends.iter().position(|backend| backend.name == name) else { return reason };
        let own = format!("spec.backends[{index}].");
        [
            ("spec.headerForward.addPlaintextHeaders", "headers"),
            ("spec.remoteUrl", "remoteUrl"),
            ("spec.allowPrivateEndpoint", "allowPrivateEndpoint"),
            ("spec.externalAuthConfigRef", "externalAuthConfigRef"),
            ("spec.toolConfigRef", "toolConfigRef"),
        ]
        .into_iter()
        .fold(reason, |reason, (of_entry, field)| reason.replace(of_entry, &format!("{own}{field}")))
    }

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
    fn a_refusal_names_the_field_of_the_server() {
        let inline: InlineBackend =
            serde_saphyr::from_str("{name: a, remoteUrl: 'http://a.svc/mcp'}").unwrap();
        let said = "spec.remoteUrl: a private address; set `spec.allowPrivateEndpoint: true`".to_owned();
        let own = "spec.backends[0].remoteUrl: a private address; set `spec.backends[0].allowPrivateEndpoint: true`";
        assert_eq!(InlineBackend::in_server(&[inline], "a", said.clone()), own);
        assert_eq!(InlineBackend::in_server(&[], "a", said.clone()), said);
    }

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
