//! The Deployment, the workload of a server whose cache ends with its pod.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::virtual_mcp_server::Validated;

use crate::virtual_mcp_server::names;

/// Returns the Deployment with this metadata and number of pods.
pub(super) fn deployment(
    server: &Validated,
    (metadata, replicas): (ObjectMeta, Option<i32>),
    template: PodTemplateSpec,
) -> Deployment {
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            replicas,
            selector: LabelSelector {
                match_labels: Some(names::selector(&server.name)),
                ..LabelSelector::default()
            },
            // A new pod is ready before an old one ends.
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_unavailable: Some(IntOrString::Int(0)),
                    max_surge: Some(IntOrString::Int(1)),
                }),
            }),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}
