//! The pods of the workload: one container `vmcp`, hardened, that mounts its configuration and keeps its
//! cache in an emptyDir, or in the claim of its own that a StatefulSet gives it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource,
    ObjectFieldSelector, PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SecretVolumeSource,
    SecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use vmcp_crds::fields::workload::CACHE_VOLUME;
use vmcp_crds::lower::{
    ADMIN_PORT, CACHE_DIR, CLIENT_PORT, EVENTS_PORT, POD_IDENTITY_VARIABLES, POD_IP_VARIABLE,
    SCRIPT_JOBS_VARIABLE, SCRIPT_USER_VARIABLE, SECRETS_DIR,
};
use vmcp_crds::virtual_mcp_server::{RESTARTED_AT, Validated};

use super::workload_form::kept_volume;
use super::{account, added_servers, needs_token, scripts};
use crate::runtime::BuildSettings;
use crate::virtual_mcp_server::names::{self, CONFIG_FILE, CONTAINER};
use crate::virtual_mcp_server::start_settings;
use crate::workload::{GROUP_LABEL, group_label, pod};

/// The directory at which the ConfigMap is mounted.
const CONFIG_DIR: &str = "/etc/vmcp/config";
/// The uid and gid of distroless images' user `nonroot`.
const NONROOT: i64 = 65_532;

/// Returns the pod template without `spec.podTemplateSpec`. `grace` is the time that a pod needs to end,
/// which follows from its configuration; `start_settings` is the digest of the settings whose change replaces
/// the pods.
pub(super) fn template(
    server: &Validated,
    grace: Duration,
    start_settings: String,
    settings: &BuildSettings,
) -> PodTemplateSpec {
    let pods = &server.pods;
    let grace = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
    let account = account(server);
    let base = pod::base(Some(&account), &settings.pull_secrets(&pods.image_pull_secrets));
    let restarted_at = server.restarted_at.clone().map(|time| (RESTARTED_AT.to_owned(), time));
    let annotations = [(start_settings::annotation(), start_settings)].into_iter().chain(restarted_at);
    PodTemplateSpec {
        metadata: Some(server.overrides.deployment.on_pods(ObjectMeta {
            labels: Some(pod_labels(server)),
            annotations: Some(annotations.collect()),
            ..ObjectMeta::default()
        })),
        spec: Some(PodSpec {
            // Not even the token of an account that the resource names: `vmcp` calls the API server for
            // Jobs of scripts and servers of clients alone.
            automount_service_account_token: Some(needs_token(server, settings)),
            termination_grace_period_seconds: Some(pods.termination_grace_period_seconds.unwrap_or(grace)),
            security_context: Some(pod::non_root(
                base.security_context.unwrap_or_default(),
                settings.fixed_user.then_some(NONROOT),
            )),
            // Replicas on different nodes, if there are several.
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
            volumes: Some(volumes(server, settings)),
            ..base
        }),
    }
}

/// Returns the labels of the pods: the selector, and the group, by which NetworkPolicies of MCPServers know
/// who serves them.
fn pod_labels(server: &Validated) -> BTreeMap<String, String> {
    let mut labels = names::selector(&server.name);
    labels.insert(GROUP_LABEL.to_owned(), server.group.as_deref().map(group_label).unwrap_or_default());
    labels
}

fn container(server: &Validated, settings: &BuildSettings) -> Container {
    let pods = &server.pods;
    Container {
        name: CONTAINER.to_owned(),
        image: Some(pods.image.clone().unwrap_or_else(|| settings.vmcp_image.clone())),
        image_pull_policy: pods.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        // Arguments only: the entrypoint is the image's, which has no shell and no search path.
        args: Some(vec!["serve".to_owned(), "--config".to_owned(), format!("{CONFIG_DIR}/{CONFIG_FILE}")]),
        // `vmcp.yaml` is the same for all pods; this is the address at which the others reach one.
        env: Some(variables(server, settings)),
        ports: Some(ports(server)),
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
            mount(CACHE_VOLUME, CACHE_DIR, false),
        ]),
        ..Container::default()
    }
}

fn ports(server: &Validated) -> Vec<ContainerPort> {
    let events = server.events.enabled.then(|| port("events", EVENTS_PORT));
    [port("mcp", CLIENT_PORT), port("admin", ADMIN_PORT)].into_iter().chain(events).collect()
}

/// Returns the variables of the container; scripts that run as Jobs and servers of clients take the variables
/// of the pod's name.
fn variables(server: &Validated, settings: &BuildSettings) -> Vec<EnvVar> {
    let mut variables = vec![field(POD_IP_VARIABLE, "status.podIP")];
    let of_servers = added_servers::variables(server, settings);
    let has_jobs = scripts::role(server, settings).is_some();
    if has_jobs || !of_servers.is_empty() {
        variables.extend(POD_IDENTITY_VARIABLES.map(|(name, path)| field(name, path)));
    }
    variables.extend(of_servers);
    if has_jobs {
        let user = settings.fixed_user.then(|| (SCRIPT_USER_VARIABLE, NONROOT.to_string()));
        let of_scripts = std::iter::once((SCRIPT_JOBS_VARIABLE, server.name.clone())).chain(user);
        variables.extend(of_scripts.map(|(name, value)| EnvVar {
            name: name.to_owned(),
            value: Some(value),
            value_from: None,
        }));
    }
    variables
}

/// Returns a variable with a field of the pod.
fn field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    }
}

fn volumes(server: &Validated, settings: &BuildSettings) -> Vec<Volume> {
    let config = Volume {
        name: "config".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: names::config_map(&server.name),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let secrets = Volume {
        name: "secrets".to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(names::secret(&server.name)),
            // Readable for the pod's group alone, where the pod has one (`fsGroup`). Without it the files
            // belong to root, and only `vmcp` and the pod's own sidecars see the volume.
            default_mode: Some(if settings.fixed_user { 0o440 } else { 0o444 }),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    };
    // A StatefulSet adds the claim of each pod under the same name.
    let cache = kept_volume(server).is_none().then(|| cache(server));
    [config, secrets].into_iter().chain(cache).collect()
}

/// Returns the volume of the cache that ends with its pod.
fn cache(server: &Validated) -> Volume {
    let size = server.optimizer.as_ref().map(|optimizer| optimizer.cache_size.clone());
    Volume {
        name: CACHE_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(size.unwrap_or_else(|| Quantity("1Gi".to_owned()))),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
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

/// Returns the default resources: memory for the local model and some thousand tools; no CPU limit, which
/// would throttle requests.
fn resources() -> ResourceRequirements {
    pod::resources("100m", "128Mi", "1Gi")
}
