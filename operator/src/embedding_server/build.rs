//! Step 3 of a reconcile, build: the StatefulSet, the Service and the volume claim of an EmbeddingServer, and
//! the key of digests. Pure.

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Probe, Service, ServicePort, ServiceSpec,
    Sysctl, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::embedding_server::{AccessMode, ModelCache};

use super::names::{WORKLOAD_NAME, child_name, digest_secret_name};
use super::validate::{ValidEmbeddingServer, claim_template};
use crate::references::digest_key_secret;
use crate::runtime::{BuildSettings, Child, Desired, child_metadata, workload_labels};
use crate::workload::pod;
use crate::workload::pod_template::{self, PodTemplateError};

/// The container of the server itself.
pub(super) const CONTAINER: &str = "embedding";
/// The name of the port, in the container and in the Service.
const PORT: &str = "http";
/// The volume with the model.
const VOLUME: &str = "model";
/// The directory in which TEI keeps the model.
const DATA: &str = "/data";
/// Startup probes, one every 10 s, before a start counts as failed: an hour, for large models over slow
/// lines.
const START_ATTEMPTS: i32 = 360;

/// The user and group that TEI runs as: not root, as the level `restricted` wants it. The image names none.
const USER: i64 = 1000;
/// The first port at which every user may listen.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Returns every object that should exist.
pub(super) fn build(
    server: &ValidEmbeddingServer,
    settings: &BuildSettings,
) -> Result<Desired, PodTemplateError> {
    let template = pod_template::merge(&template(server, settings), &server.template, &settings.pod_schema)?;
    let mut children = Vec::new();
    children.extend(server.digest_key.as_ref().map(|key| {
        let name = digest_secret_name(&server.name);
        Child::from_object(&digest_key_secret(child_metadata(name, WORKLOAD_NAME, &server.name), key))
    }));
    let shared = server.cache.as_ref().filter(|_| !server.has_claim_per_pod);
    children.extend(shared.map(|cache| Child::from_object(&claim(metadata(server), server, cache))));
    children.extend([
        Child::from_object(&stateful_set(server)).with_pod_template(template),
        Child::from_object(&service(server)),
    ]);
    Ok(Desired { children, keep: Vec::new() })
}

fn metadata(server: &ValidEmbeddingServer) -> ObjectMeta {
    child_metadata(child_name(&server.name), WORKLOAD_NAME, &server.name)
}

/// Returns one claim for all pods, or the template of the claims of each. It is deleted with the resource:
/// the model can be downloaded again.
fn claim(metadata: ObjectMeta, server: &ValidEmbeddingServer, cache: &ModelCache) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: server.overrides.persistent_volume_claim.on(metadata),
        spec: Some(claim_template(cache).spec()),
        status: None,
    }
}

/// Returns the StatefulSet without its pod template.
fn stateful_set(server: &ValidEmbeddingServer) -> StatefulSet {
    let per_pod = server.cache.as_ref().filter(|_| server.has_claim_per_pod);
    let claims = per_pod.map(|cache| {
        let metadata = ObjectMeta { name: Some(VOLUME.to_owned()), ..ObjectMeta::default() };
        vec![claim(metadata, server, cache)]
    });
    let retention = claims.as_ref().map(|_| StatefulSetPersistentVolumeClaimRetentionPolicy {
        when_deleted: Some("Delete".to_owned()),
        when_scaled: Some("Delete".to_owned()),
    });
    StatefulSet {
        metadata: server.overrides.stateful_set.on(metadata(server)),
        spec: Some(StatefulSetSpec {
            replicas: Some(server.replicas),
            service_name: Some(child_name(&server.name)),
            selector: LabelSelector {
                match_labels: Some(workload_labels(WORKLOAD_NAME, &server.name)),
                match_expressions: None,
            },
            // `OrderedReady` would wait for a broken pod to become ready before it rolls out the correction.
            pod_management_policy: Some("Parallel".to_owned()),
            volume_claim_templates: claims,
            persistent_volume_claim_retention_policy: retention,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

fn service(server: &ValidEmbeddingServer) -> Service {
    Service {
        metadata: server.overrides.service.on(metadata(server)),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(workload_labels(WORKLOAD_NAME, &server.name)),
            ports: Some(vec![ServicePort {
                name: Some(PORT.to_owned()),
                port: server.port.into(),
                target_port: Some(IntOrString::String(PORT.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn template(server: &ValidEmbeddingServer, settings: &BuildSettings) -> PodTemplateSpec {
    let base = pod::base(None, &settings.pull_secrets(&server.image_pull_secrets));
    let user = settings.fixed_user.then_some(USER);
    let mut context = pod::non_root(base.security_context.unwrap_or_default(), user);
    if server.port < FIRST_UNPRIVILEGED_PORT {
        context.sysctls = Some(vec![Sysctl {
            name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
            value: server.port.to_string(),
        }]);
    }
    let mut spec = PodSpec { security_context: Some(context), ..base };
    spec.containers = vec![container(server)];
    // The StatefulSet adds the volume of each pod.
    spec.volumes = (!server.has_claim_per_pod).then(|| vec![volume(server)]);
    PodTemplateSpec {
        metadata: Some(server.overrides.stateful_set.on_pods(ObjectMeta {
            labels: Some(workload_labels(WORKLOAD_NAME, &server.name)),
            annotations: pod::secrets_annotation(server.secrets.clone()),
            ..ObjectMeta::default()
        })),
        spec: Some(spec),
    }
}

fn container(server: &ValidEmbeddingServer) -> Container {
    let mut args =
        ["--model-id", &server.model, "--port", &server.port.to_string()].map(str::to_owned).to_vec();
    args.extend(server.args.iter().cloned());
    let home = EnvVar { name: "HF_HOME".to_owned(), value: Some(DATA.to_owned()), value_from: None };
    Container {
        name: CONTAINER.to_owned(),
        image: Some(server.image.clone()),
        image_pull_policy: Some(server.image_pull_policy.as_str().to_owned()),
        args: Some(args),
        // Of two variables of one name the later wins: the resource may override this one.
        env: Some(std::iter::once(home).chain(server.env.iter().cloned()).collect()),
        ports: Some(vec![ContainerPort {
            name: Some(PORT.to_owned()),
            container_port: server.port.into(),
            ..ContainerPort::default()
        }]),
        resources: Some(server.resources.clone().unwrap_or_else(|| pod::resources("250m", "512Mi", "8Gi"))),
        security_context: Some(pod::unprivileged()),
        startup_probe: Some(Probe {
            failure_threshold: Some(START_ATTEMPTS),
            ..pod::http_probe("/health", PORT, 10)
        }),
        readiness_probe: Some(pod::http_probe("/health", PORT, 5)),
        liveness_probe: Some(pod::http_probe("/health", PORT, 30)),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(vec![VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: DATA.to_owned(),
            read_only: is_read_only(server).then_some(true),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn is_read_only(server: &ValidEmbeddingServer) -> bool {
    server.cache.as_ref().is_some_and(|cache| cache.access_mode == AccessMode::ReadOnlyMany)
}

fn volume(server: &ValidEmbeddingServer) -> Volume {
    let mut volume = Volume { name: VOLUME.to_owned(), ..Volume::default() };
    if server.cache.is_some() {
        volume.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
            claim_name: child_name(&server.name),
            read_only: is_read_only(server).then_some(true),
        });
    } else {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    volume
}
