//! Minimal resources for tests of the pure steps: validate, build, status.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use vmcp_crds::VirtualMCPServer;
use vmcp_crds::lower::PolicyCheck;

use super::dereference::{GeneratedValues, References};
use super::validate::{Plan, validate};
use crate::references::ReferencedSecrets;
use crate::runtime::BuildSettings;

/// Parses a resource.
pub(super) fn yaml<K: DeserializeOwned>(text: &str) -> K {
    serde_saphyr::from_str(text).expect("a resource")
}

/// Returns a server called `x` in the namespace `n`, with this spec in YAML's flow style.
pub(super) fn server(spec: &str) -> VirtualMCPServer {
    yaml(&format!("metadata: {{name: x, namespace: n, uid: u, generation: 1}}\nspec: {spec}"))
}

/// Returns settings with the image `vmcp:test`.
pub(super) fn settings() -> BuildSettings {
    BuildSettings {
        vmcp_image: "vmcp:test".to_owned(),
        bridge_image: "vmcp:test".to_owned(),
        ..BuildSettings::default()
    }
}

/// Returns references that exist for every server.
pub(super) fn references() -> References {
    References {
        group_exists: true,
        generated: GeneratedValues {
            admin_token: b"token".to_vec(),
            session_key: b"key".to_vec(),
            metrics_token: None,
            trusted_tools: None,
        },
        ..References::default()
    }
}

/// Adds an MCPServer.
pub(super) fn with_server(mut references: References, name: &str) -> References {
    let text = format!("metadata: {{name: {name}, namespace: n}}\nspec: {{image: i}}");
    references.servers.push(Arc::new(yaml(&text)));
    references
}

/// Adds a valid MCPServerEntry with a header from the Secret `s`.
pub(super) fn with_entry(mut references: References, name: &str) -> References {
    let text = format!(
        "metadata: {{name: {name}, namespace: n}}\nspec: {{remoteUrl: 'https://mcp.example.com/mcp', headerForward: \
         {{addHeadersFromSecret: [{{headerName: Authorization, valueSecretRef: {{name: s, key: k}}}}]}}}}"
    );
    references.entries.push(Arc::new(yaml(&text)));
    references
}

/// Adds the Secret `s`.
pub(super) fn with_secret(mut references: References) -> References {
    references.secrets = ReferencedSecrets::from_values(&[("s", "k", "Bearer secret")]);
    references
}

/// Validates a server with this spec.
pub(super) fn plan(spec: &str, references: &References) -> Plan {
    validate(&server(spec), references, PolicyCheck(&vmcp_access::policy::findings), &settings())
}
