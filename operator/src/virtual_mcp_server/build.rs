//! Step 3: every object that should exist. Pure.

mod config;
mod deployment;
mod exposure;
mod service;

pub(super) use config::FILE;
pub(super) use deployment::CONTAINER;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ObjectMeta;
use vmcp_crds::lower;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, Scale, TeiService, Validated};

use super::dereference::References;
use super::names;
use super::validate::Plan;
use crate::runtime::{Child, ChildKind, Desired, Settings, metadata_of};

/// Everything that should exist for the server: with the last good configuration, while what is written makes no sense. What
/// cannot be built now is kept as it is.
pub(super) fn build(
    server: &Validated,
    plan: &Plan,
    references: &References,
    settings: &Settings,
) -> Desired {
    let mut desired = Desired::default();
    if server.pods.service_account.is_none() {
        desired.children.push(Child::of(&service_account(server)));
    }
    let mounted = match &plan.configuration {
        Ok(configuration) => Some((&configuration.mounted, Some(configuration.lowered.grace()))),
        Err(_) => references.mounted.as_ref().map(|mounted| (mounted, lower::grace(&mounted.text))),
    };
    if let Some((mounted, _)) = mounted {
        desired.children.push(Child::of(&config::config_map(server, mounted)));
        desired.children.push(Child::of(&config::secret(server, mounted, &references.generated)));
    } else {
        desired.keep.push((ChildKind::ConfigMap, names::config_map(&server.name)));
        desired.keep.push((ChildKind::Secret, names::secret(&server.name)));
    }
    desired.children.push(Child::of(&service::client(server)));
    desired.children.push(Child::of(&service::peers(server)));
    if let Some(managed) = managed_embedding_server(server) {
        desired.children.push(Child::of(&managed));
    }
    match (mounted, &plan.template) {
        (Some((_, Some(grace))), Ok(())) => {
            desired.children.push(Child::of(&deployment::deployment(server, grace, settings)));
        }
        _ => desired.keep.push((ChildKind::Deployment, server.name.clone())),
    }
    desired.children.extend(exposure::all(server));
    desired
}

fn meta(server: &Validated, name: String) -> ObjectMeta {
    metadata_of(name, names::NAME, &server.name)
}

fn service_account(server: &Validated) -> ServiceAccount {
    ServiceAccount {
        metadata: meta(server, names::other(&server.name)),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

fn managed_embedding_server(server: &Validated) -> Option<vmcp_crds::EmbeddingServer> {
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

/// How many pods there should be, where that is ours to say.
pub(super) fn replicas(scale: &Scale) -> Option<i32> {
    match scale {
        Scale::Fixed(replicas) => Some(*replicas),
        Scale::Free | Scale::Automatic(_) => None,
    }
}

#[cfg(test)]
mod tests;
