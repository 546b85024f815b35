//! The Job of one script. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, LocalObjectReference,
    PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile, SecurityContext,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest as _, Sha256};
use vmcp_script::jobs::JobSettings;

use crate::server_pod::ServerPod;

/// The container of a script's pod.
pub const CONTAINER: &str = "script";
/// The program of a script's pod.
pub const DRIVER: &str = include_str!("script_driver.py");
/// `app.kubernetes.io/name` of Jobs and pods of scripts; the operator's NetworkPolicy selects by it.
const APP_NAME: &str = "vmcp-script";
/// Most characters of the server's name in the name of a Job: with `-script-` and twelve digits, the name has
/// at most 63, since it is also the value of a label.
const MAX_SERVER_PART: usize = 43;
/// Seconds after which the cluster removes a Job that has ended, in case its server could not.
const TTL_SECONDS: i32 = 60;
/// Time between the latest end of a script and the deadline of its pod: a script whose server died ends with
/// its connection, unless it replaced `os._exit`, and at the latest here. Tools that ask the user while their
/// call is held take part of it.
const GRACE: Duration = Duration::from_mins(10);

/// Returns the name of a Job: the server's name, cut at [`MAX_SERVER_PART`], and random digits.
pub(crate) fn job_name(server: &str, random: [u8; 6]) -> String {
    let part: String = server.chars().take(MAX_SERVER_PART).collect();
    format!("{}-script-{}", part.trim_end_matches(['-', '.']), hex::encode(random))
}

/// Returns the Job. `token` is known to the server alone; `most` bounds a frame of the pod, in bytes.
pub(crate) fn job(pod: &ServerPod, settings: &JobSettings, name: &str, token: &str, most: usize) -> Job {
    let deadline = settings.start_timeout.saturating_add(settings.max_timeout).saturating_add(2 * GRACE);
    Job {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(pod.namespace.clone()),
            labels: Some(labels(pod)),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            completions: Some(1),
            parallelism: Some(1),
            active_deadline_seconds: Some(seconds(deadline)),
            ttl_seconds_after_finished: Some(TTL_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels(pod)), ..ObjectMeta::default() }),
                spec: Some(pod_spec(pod, settings, token, most)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// Returns the labels of the Jobs and pods of a server's scripts.
fn labels(pod: &ServerPod) -> BTreeMap<String, String> {
    [("name", APP_NAME), ("instance", pod.server.as_str()), ("managed-by", "vmcp")]
        .map(|(key, value)| (format!("app.kubernetes.io/{key}"), value.to_owned()))
        .into()
}

fn pod_spec(pod: &ServerPod, settings: &JobSettings, token: &str, most: usize) -> PodSpec {
    let secrets = settings.image_pull_secrets.iter();
    let secrets: Vec<_> = secrets.map(|name| LocalObjectReference { name: name.clone() }).collect();
    let deadline = settings.start_timeout.saturating_add(settings.max_timeout).saturating_add(GRACE);
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        restart_policy: Some("Never".to_owned()),
        // Of the pod, whose status then says why it ended; that of the Job is behind it and removes the pod.
        // It runs from the pod's placement on a node, so the pull of the image counts.
        active_deadline_seconds: Some(seconds(deadline)),
        // The interpreter is process 1, which SIGTERM does not end.
        termination_grace_period_seconds: Some(1),
        runtime_class_name: settings.runtime_class_name.clone(),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: pod.script_user,
            run_as_group: pod.script_user,
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(pod, settings, token, most)],
        volumes: Some(vec![Volume {
            name: "tmp".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(Quantity(settings.ephemeral_storage.to_string())),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        }]),
        ..PodSpec::default()
    }
}

fn container(pod: &ServerPod, settings: &JobSettings, token: &str, most: usize) -> Container {
    let amounts = BTreeMap::from([
        ("cpu".to_owned(), Quantity(format!("{}m", settings.cpu_millicores))),
        ("memory".to_owned(), Quantity(settings.memory.to_string())),
        ("ephemeral-storage".to_owned(), Quantity(settings.ephemeral_storage.to_string())),
    ]);
    // Requests as large as the limits: no neighbor pays for a script.
    let resources = ResourceRequirements {
        requests: Some(amounts.clone()),
        limits: Some(amounts),
        ..ResourceRequirements::default()
    };
    let variables = [
        ("PORT", pod.script_port.to_string()),
        ("DIGEST", hex::encode(Sha256::digest(token))),
        ("START_SECONDS", seconds(settings.start_timeout).to_string()),
        ("MAX_FRAME", most.to_string()),
    ];
    let variables = variables.map(|(name, value)| EnvVar {
        name: format!("VMCP_SCRIPT_{name}"),
        value: Some(value),
        value_from: None,
    });
    Container {
        name: CONTAINER.to_owned(),
        image: Some(settings.image.clone()),
        // Isolated mode: no user site, no `PYTHON*` variable, no module of the working directory.
        command: Some(["python3", "-I", "-B", "-c", DRIVER].map(str::to_owned).to_vec()),
        env: Some(variables.to_vec()),
        ports: Some(vec![ContainerPort {
            name: Some(CONTAINER.to_owned()),
            container_port: pod.script_port.into(),
            ..ContainerPort::default()
        }]),
        resources: Some(resources),
        working_dir: Some("/tmp".to_owned()),
        volume_mounts: Some(vec![VolumeMount {
            name: "tmp".to_owned(),
            mount_path: "/tmp".to_owned(),
            ..VolumeMount::default()
        }]),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Returns whole seconds, rounded up.
fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
