//! Names of a VirtualMCPServer's objects, their labels, and the server's address.

use std::collections::BTreeMap;

use vmcp_crds::lower::{CLIENT_PORT, SCRIPT_APP_NAME};

use crate::runtime::{BuildSettings, hex_digest, workload_labels};

/// The longest name of an EmbeddingServer: its Service is named `NAME-tei`, and a pod of its StatefulSet has
/// a label with a longer name.
const MAX_EMBEDDING_SERVER: usize = 48;
/// Hex digits that tell long names with the same beginning apart.
const DIGEST_DIGITS: usize = 8;

/// The label that tells the Services of a server apart.
pub(super) const COMPONENT: &str = "app.kubernetes.io/component";
/// The value of [`COMPONENT`] at the Service of the console.
pub(super) const CONSOLE: &str = "console";
/// The value of [`COMPONENT`] at the headless Service.
pub(super) const PEERS: &str = "peers";
/// The annotation of pods that holds the resource versions of the mounted objects; its change makes the
/// kubelet sync them.
pub(super) const MOUNTED_VERSIONS: &str = "toolhive.stacklok.com/configuration";

/// The value of `app.kubernetes.io/name` of all objects and pods.
pub(super) const WORKLOAD_NAME: &str = "vmcp";

/// The key of the ConfigMap, and the name of the mounted file.
pub(super) const CONFIG_FILE: &str = "vmcp.yaml";
/// The container of `vmcp`, by which `spec.podTemplateSpec` changes it.
pub(super) const CONTAINER: &str = "vmcp";

/// Returns the labels of all objects, which are also the selector of the pods.
pub(super) fn selector(server: &str) -> BTreeMap<String, String> {
    workload_labels(WORKLOAD_NAME, server)
}

/// Returns the name of the Service for clients.
pub(super) fn service(server: &str) -> String {
    format!("vmcp-{server}")
}

/// Returns the name of the headless Service.
pub(super) fn peers(server: &str) -> String {
    format!("vmcp-{server}-peers")
}

/// Returns the name of the Service that leads to the web console.
pub(super) fn console(server: &str) -> String {
    format!("{server}-console")
}

/// Returns the name of the EmbeddingServer that `tei.managed` makes: that of the server, where an
/// EmbeddingServer may have it.
pub(super) fn embedding_server(server: &str) -> String {
    if server.len() <= MAX_EMBEDDING_SERVER && server.starts_with(|first: char| first.is_ascii_lowercase()) {
        return server.to_owned();
    }
    let room = MAX_EMBEDDING_SERVER - "vmcp--".len() - DIGEST_DIGITS;
    let beginning: String = server.chars().take(room).collect();
    format!("vmcp-{}-{}", beginning.trim_end_matches('-'), hex_digest(server, DIGEST_DIGITS))
}

/// Returns the name of the ConfigMap with `vmcp.yaml`.
pub(super) fn config_map(server: &str) -> String {
    format!("{server}-vmcp-config")
}

/// Returns the name of the Secret with the values that `vmcp.yaml` refers to.
pub(super) fn secret(server: &str) -> String {
    format!("{server}-vmcp-secrets")
}

/// Returns the name of the ServiceAccount, HorizontalPodAutoscaler, PodDisruptionBudget, NetworkPolicy,
/// ServiceMonitor and HTTPRoute.
pub(super) fn auxiliary(server: &str) -> String {
    format!("{server}-vmcp")
}

/// Returns the name of the RoleBinding and the NetworkPolicy for scripts that run as Jobs.
pub(super) fn scripts(server: &str) -> String {
    format!("{server}-vmcp-scripts")
}

/// Returns the name of the RoleBinding for servers at a URL that clients add.
pub(super) fn added_servers(server: &str) -> String {
    format!("{server}-vmcp-servers")
}

/// Returns the name of the RoleBinding for programs that clients add.
pub(super) fn added_programs(server: &str) -> String {
    format!("{server}-vmcp-programs")
}

/// Returns the labels of the Jobs and pods of a server's scripts.
pub(super) fn script_selector(server: &str) -> BTreeMap<String, String> {
    [("name", SCRIPT_APP_NAME), ("instance", server)]
        .map(|(key, value)| (format!("app.kubernetes.io/{key}"), value.to_owned()))
        .into()
}

/// Returns the URL at which clients inside the cluster reach the server.
pub(super) fn url(server: &str, namespace: &str, settings: &BuildSettings) -> String {
    format!("http://{}.{namespace}.svc.{}:{CLIENT_PORT}/mcp", service(server), settings.cluster_domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_embedding_server_has_a_name_that_fits() {
        assert_eq!(embedding_server("docs"), "docs");
        let longest = "a".repeat(MAX_EMBEDDING_SERVER);
        assert_eq!(embedding_server(&longest), longest);
        let [long, other] = ["b", "c"].map(|last| format!("{}-{last}", "a".repeat(50)));
        let hyphen = format!("{}-{}", "a".repeat(33), "b".repeat(18));
        for name in ["9lives", long.as_str(), other.as_str(), hyphen.as_str()] {
            let made = embedding_server(name);
            assert!(made.len() <= MAX_EMBEDDING_SERVER && made.starts_with("vmcp-"), "{made}");
            assert!(!made.contains("--"), "{made}");
        }
        assert_ne!(embedding_server(&long), embedding_server(&other));
    }
}
