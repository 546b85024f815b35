//! Names of a VirtualMCPServer's objects, their labels, and the server's address.

use std::collections::BTreeMap;

use vmcp_crds::lower::{CLIENT_PORT, SCRIPT_APP_NAME};

use crate::runtime::{BuildSettings, workload_labels};

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
