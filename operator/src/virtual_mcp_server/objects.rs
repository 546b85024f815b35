//! The objects that a VirtualMCPServer is made of, one function each; [`build`](super::build) decides which
//! of them exist.

mod config;
mod deployment;
mod exposure;
mod pods;
mod scripts;
mod service;
mod stateful_set;

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, Scale, StorageVolume, TeiService, Validated};

pub(super) use self::config::{config_map, secret};
pub(super) use self::exposure::{optional, route};
pub(super) use self::scripts::{script_isolation, script_right};
pub(super) use self::service::{client_service, peers_service};
pub(super) use self::stateful_set::has_claims;
use super::names;
use super::observe::running_workload::{RunningWorkload, WorkloadForm};
use crate::runtime::{BuildSettings, Child, child_metadata};
use crate::workload::pod_template;

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

/// Returns the volume that outlives its pod; `None`: the cache ends with the pod.
pub(super) fn kept_volume(server: &Validated) -> Option<&StorageVolume> {
    server.optimizer.as_ref()?.volume.as_ref()
}

/// Returns the workload: a StatefulSet where each pod has a claim of its own, else a Deployment. `grace` is
/// the time that a pod needs to end, which follows from its configuration; `start_settings` is the digest of
/// the settings whose change replaces the pods.
pub(super) fn workload(
    server: &Validated,
    running: &RunningWorkload,
    grace: Duration,
    start_settings: String,
    settings: &BuildSettings,
) -> Child {
    let template = pods::template(server, grace, start_settings, settings);
    // Cannot fail: `validate` has merged the same template into an empty one.
    let merged = pod_template::merge(&template, &server.pods.template, &settings.pod_schema).ok();
    let first = running.first_replicas(WorkloadForm::wanted(server));
    let replicas = replicas(&server.scale).or(first);
    let workload = match kept_volume(server) {
        Some(volume) => {
            let running = running.set.as_ref();
            let set = stateful_set::stateful_set(server, volume, replicas, template, running);
            Child::from_object(&set)
        }
        None => Child::from_object(&deployment::deployment(server, replicas, template)),
    };
    match merged {
        Some(merged) => workload.with_pod_template(merged),
        None => workload,
    }
}

/// Returns the number of pods; `None` if an autoscaler or a person decides it.
fn replicas(scale: &Scale) -> Option<i32> {
    match scale {
        Scale::Fixed(replicas) => Some(*replicas),
        Scale::Free | Scale::Automatic(_) => None,
    }
}

#[cfg(test)]
mod tests;
