//! The objects that a VirtualMCPServer is made of, one function each; [`build`](super::build) decides which
//! of them exist.

mod added_servers;
mod config;
mod deployment;
mod exposure;
mod pods;
mod replicas;
mod scripts;
mod service;
mod stateful_set;
mod stored_metadata;
pub(super) mod workload_form;

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::api::ObjectMeta;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService, Validated};

pub(super) use self::added_servers::rights_to_add_servers;
pub(super) use self::config::{config_map, secret};
pub(super) use self::exposure::{network_policy, optional, route};
use self::replicas::{LiveReplicas, Replicas};
pub(super) use self::scripts::{script_isolation, script_right};
pub(super) use self::service::{client_service, console_service, peers_service};
pub(super) use self::stateful_set::has_claims;
pub(super) use self::stored_metadata::StoredMetadata;
use self::workload_form::{WorkloadForm, kept_volume};
use super::names;
use super::observe::running_workload::RunningWorkload;
use crate::runtime::{BuildSettings, Child, RoleName, child_metadata};
use crate::workload::pod_template;

/// Group of the kinds of RBAC.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the metadata of an object of the server.
fn meta(server: &Validated, name: String) -> ObjectMeta {
    child_metadata(name, names::WORKLOAD_NAME, &server.name)
}

/// Returns the name of the ServiceAccount of the pods.
fn account(server: &Validated) -> String {
    server.pods.service_account.clone().unwrap_or_else(|| names::auxiliary(&server.name))
}

/// Returns a RoleBinding: in the namespace of the server, its pods have the rights of a role.
fn role_binding(server: &Validated, name: String, role: &RoleName) -> RoleBinding {
    RoleBinding {
        metadata: meta(server, name),
        role_ref: RoleRef { api_group: RBAC.to_owned(), kind: role.kind.clone(), name: role.name.clone() },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account(server),
            namespace: Some(server.namespace.clone()),
            api_group: None,
        }]),
    }
}

/// Returns true if the pods call the API server: to make Jobs of scripts, or servers that clients add.
fn needs_token(server: &Validated, settings: &BuildSettings) -> bool {
    scripts::granted_role(server, settings).is_some() || added_servers::is_granted(server, settings)
}

/// Returns the ServiceAccount of the pods. It has no rights but those to make Jobs of scripts and servers
/// that clients add, where the resource asks for them.
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
        metadata: meta(server, names::embedding_server(&server.name)),
        spec: spec.as_ref().clone(),
        status: None,
    })
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
    let live = LiveReplicas::read(running, WorkloadForm::wanted(server));
    let Replicas { wanted, kept } = Replicas::new(server, live);
    let mut metadata = server.overrides.deployment.on(meta(server, server.name.clone()));
    if let Some(kept) = kept {
        metadata.annotations.get_or_insert_default().insert(replicas::annotation(), kept.to_string());
    }
    let workload = match kept_volume(server) {
        Some(volume) => {
            let running = running.set.as_ref();
            let set = stateful_set::stateful_set(server, volume, (metadata, wanted), template, running);
            Child::from_object(&set)
        }
        None => Child::from_object(&deployment::deployment(server, (metadata, wanted), template)),
    };
    match merged {
        Some(merged) => workload.with_pod_template(merged),
        None => workload,
    }
}

#[cfg(test)]
mod tests;
