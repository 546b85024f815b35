//! The objects that a VirtualMCPServer is made of, one function each; [`build`](super::build) decides which
//! of them exist.

mod config;
mod deployment;
mod exposure;
mod replicas;
mod scripts;
mod service;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService, Validated};

pub(super) use self::config::{config_map, secret};
pub(super) use self::deployment::deployment;
pub(super) use self::exposure::{optional, route};
pub(super) use self::replicas::LiveReplicas;
pub(super) use self::scripts::{script_isolation, script_right};
pub(super) use self::service::{client_service, console_service, peers_service};
use super::names;
use crate::runtime::child_metadata;

/// Returns the metadata of an object of the server.
fn meta(server: &Validated, name: String) -> ObjectMeta {
    child_metadata(name, names::WORKLOAD_NAME, &server.name)
}

/// Returns the name of the ServiceAccount of the pods.
fn account(server: &Validated) -> String {
    server.pods.service_account.clone().unwrap_or_else(|| names::auxiliary(&server.name))
}

/// Returns the ServiceAccount of the pods, which has no rights, but to make Jobs where scripts run as such.
pub(super) fn service_account(server: &Validated) -> ServiceAccount {
    ServiceAccount {
        metadata: server.overrides.service_account.on(meta(server, names::auxiliary(&server.name))),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Returns the EmbeddingServer that the server asks for by `spec.optimizer.embeddings.tei.managed`.
pub(super) fn managed_embedding_server(server: &Validated) -> Option<vmcp_crds::EmbeddingServer> {
    let EmbeddingSource::Tei { service: TeiService::Managed(spec), .. } =
        &server.optimizer.as_ref()?.embeddings
    else {
        return None;
    };
    Some(vmcp_crds::EmbeddingServer {
        metadata: meta(server, server.name.clone()),
        spec: spec.as_ref().clone(),
        status: None,
    })
}

#[cfg(test)]
mod tests;
