//! The pods.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, PodSecurityContext, PodSpec,
    PodTemplateSpec, Probe, ResourceRequirements, SecretVolumeSource, SecurityContext,
    TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::lower::{ADMIN_PORT, CACHE_DIR, CLIENT_PORT, SECRETS_DIR};
use vmcp_crds::virtual_mcp_server::Validated;

use super::config::FILE;
use super::{meta, replicas};
use crate::runtime::{Settings, pod_template};
use crate::virtual_mcp_server::names;
use crate::workload::pod;

/// The container's name, by which `spec.podTemplateSpec` changes it.
pub(in crate::virtual_mcp_server) const CONTAINER: &str = "vmcp";
const CONFIG_DIR: &str = "/etc/vmcp/config";
/// The user of distroless images.
const NOBODY: i64 = 65_532;

pub(super) fn deployment(server: &Validated, grace: Duration, settings: &Settings) -> Deployment {
    let ours = template(server, grace, settings);
    // `validate` has merged it once already, into nothing.
    let template = pod_template::merge(&ours, &server.pods.template).unwrap_or(ours);
    Deployment {
        metadata: meta(server, server.name.clone()),
        spec: Some(DeploymentSpec {
            replicas: replicas(&server.scale),
            selector: LabelSelector {
                match_labels: Some(names::selector(&server.name)),
                ..LabelSelector::default()
            },
            // A new pod serves before an old one goes.
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

fn template(server: &Validated, grace: Duration, settings: &Settings) -> PodTemplateSpec {
    let pods = &server.pods;
    let grace = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
    let account = pods.service_account.clone().unwrap_or_else(|| names::other(&server.name));
    let base = pod::base(Some(&account), &pods.image_pull_secrets);
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(names::selector(&server.name)), ..ObjectMeta::default() }),
        spec: Some(PodSpec {
            // Not even that of an account that somebody named: `vmcp` asks the API server for nothing.
            automount_service_account_token: Some(false),
            termination_grace_period_seconds: Some(pods.termination_grace_period_seconds.unwrap_or(grace)),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(NOBODY),
                run_as_group: Some(NOBODY),
                fs_group: Some(NOBODY),
                ..base.security_context.unwrap_or_default()
            }),
            // Replicas on different nodes, where there are some.
            topology_spread_constraints: Some(vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "kubernetes.io/hostname".to_owned(),
                when_unsatisfiable: "ScheduleAnyway".to_owned(),
                label_selector: Some(LabelSelector {
                    match_labels: Some(names::selector(&server.name)),
                    ..LabelSelector::default()
                }),
                ..TopologySpreadConstraint::default()
            }]),
            containers: vec![container(server, settings)],
            volumes: Some(volumes(server)),
            ..base
        }),
    }
}

fn container(server: &Validated, settings: &Settings) -> Container {
    let pods = &server.pods;
    Container {
        name: CONTAINER.to_owned(),
        image: Some(pods.image.clone().unwrap_or_else(|| settings.vmcp_image.clone())),
        image_pull_policy: pods.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        // What is started is the image's own entrypoint: an image from scratch has no search path.
        args: Some(vec!["serve".to_owned(), "--config".to_owned(), format!("{CONFIG_DIR}/{FILE}")]),
        // No variables: the file names the folder that can be written to, and the image knows where its model is.
        ports: Some(vec![port("mcp", CLIENT_PORT), port("admin", ADMIN_PORT)]),
        startup_probe: Some(probe("/healthz", 1, 120)),
        liveness_probe: Some(probe("/healthz", 10, 3)),
        readiness_probe: Some(probe("/readyz", 2, 2)),
        resources: Some(pods.resources.clone().unwrap_or_else(resources)),
        security_context: Some(SecurityContext {
            read_only_root_filesystem: Some(true),
            ..pod::unprivileged()
        }),
        volume_mounts: Some(vec![
            mount("config", CONFIG_DIR, true),
            mount("secrets", SECRETS_DIR, true),
            mount("cache", CACHE_DIR, false),
        ]),
        ..Container::default()
    }
}

fn volumes(server: &Validated) -> Vec<Volume> {
    vec![
        Volume {
            name: "config".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: names::config_map(&server.name),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: "secrets".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(names::secret(&server.name)),
                // To be read by the group of the pod, and by nobody else.
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: "cache".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(
                    server
                        .optimizer
                        .as_ref()
                        .map_or_else(|| Quantity("1Gi".to_owned()), |optimizer| optimizer.cache_size.clone()),
                ),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]
}

fn port(name: &str, port: u16) -> ContainerPort {
    ContainerPort { name: Some(name.to_owned()), container_port: port.into(), ..ContainerPort::default() }
}

fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        timeout_seconds: Some(2),
        failure_threshold: Some(failures),
        ..pod::http_probe(path, "admin", period)
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// Room for the local model and some thousand tools; CPU is not limited, since a limit is latency.
fn resources() -> ResourceRequirements {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    ResourceRequirements {
        requests: Some(BTreeMap::from([quantity("cpu", "100m"), quantity("memory", "128Mi")])),
        limits: Some(BTreeMap::from([quantity("memory", "1Gi")])),
        ..ResourceRequirements::default()
    }
}
