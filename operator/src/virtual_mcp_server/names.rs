//! How a VirtualMCPServer's objects are called, and what marks them.

use std::collections::BTreeMap;

use vmcp_crds::lower::CLIENT_PORT;

use crate::runtime::{Settings, labels};

/// The label that tells the headless Service from the other one.
pub(super) const COMPONENT: &str = "app.kubernetes.io/component";
/// The value of [`COMPONENT`] at the headless Service.
pub(super) const PEERS: &str = "peers";
/// The annotation of pods that is touched when mounted files change, so that the kubelet looks at them at once.
pub(super) const TOUCHED: &str = "toolhive.stacklok.com/configuration";

/// What the pods are called by, in `app.kubernetes.io/name`.
pub(super) const NAME: &str = "vmcp";

/// The labels of all objects, and the selector of the pods.
pub(super) fn selector(server: &str) -> BTreeMap<String, String> {
    labels(NAME, server)
}

pub(super) fn service(server: &str) -> String {
    format!("vmcp-{server}")
}

pub(super) fn peers(server: &str) -> String {
    format!("vmcp-{server}-peers")
}

pub(super) fn config_map(server: &str) -> String {
    format!("{server}-vmcp-config")
}

pub(super) fn secret(server: &str) -> String {
    format!("{server}-vmcp-secrets")
}

/// ServiceAccount, HorizontalPodAutoscaler, PodDisruptionBudget, NetworkPolicy, ServiceMonitor, HTTPRoute.
pub(super) fn other(server: &str) -> String {
    format!("{server}-vmcp")
}

/// Where clients inside of the cluster reach the server.
pub(super) fn url(server: &str, namespace: &str, settings: &Settings) -> String {
    format!("http://{}.{namespace}.svc.{}:{CLIENT_PORT}/mcp", service(server), settings.cluster_domain)
}
