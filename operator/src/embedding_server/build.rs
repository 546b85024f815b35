//! The StatefulSet, the Service and the volume of an EmbeddingServer.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, PodTemplateSpec, Probe, Service, ServicePort, ServiceSpec, Volume,
    VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::embedding_server::{AccessMode, ModelCache};

use super::NAME;
use super::address::child_name;
use super::validate::Server;
use crate::runtime::pod_template::{self, PodTemplateError};
use crate::runtime::{Child, Desired, labels, metadata_of};
use crate::workload::pod;

/// The container that does the work.
pub(super) const CONTAINER: &str = "embedding";
/// The port, in the container and in the Service.
const PORT: &str = "http";
/// Where the model is kept.
const DATA: &str = "/data";
/// How often a start may be asked about before it counts as failed: an hour, for large models over slow lines.
const START_ATTEMPTS: i32 = 360;

/// Everything that should exist.
pub(super) fn build(server: &Server) -> Result<Desired, PodTemplateError> {
    let template = pod_template::merge(&template(server), &server.template)?;
    let mut children = Vec::new();
    children.extend(server.cache.as_ref().map(|cache| Child::of(&claim(server, cache))));
    children.extend([Child::of(&set(server, template)), Child::of(&service(server))]);
    Ok(Desired { children, keep: Vec::new() })
}

fn metadata(server: &Server) -> ObjectMeta {
    metadata_of(child_name(&server.name), NAME, &server.name)
}

/// One volume for all pods, which goes with the resource: what is in it can be downloaded again.
fn claim(server: &Server, cache: &ModelCache) -> PersistentVolumeClaim {
    let requests = [("storage".to_owned(), cache.size.clone())];
    PersistentVolumeClaim {
        metadata: metadata(server),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![cache.access_mode.as_str().to_owned()]),
            resources: Some(VolumeResourceRequirements { requests: Some(requests.into()), limits: None }),
            storage_class_name: cache.storage_class_name.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

fn set(server: &Server, template: PodTemplateSpec) -> StatefulSet {
    StatefulSet {
        metadata: metadata(server),
        spec: Some(StatefulSetSpec {
            replicas: Some(server.replicas),
            service_name: Some(child_name(&server.name)),
            selector: LabelSelector {
                match_labels: Some(labels(NAME, &server.name)),
                match_expressions: None,
            },
            // Otherwise a pod that never gets ready keeps its own correction from being rolled out.
            pod_management_policy: Some("Parallel".to_owned()),
            template,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

fn service(server: &Server) -> Service {
    Service {
        metadata: metadata(server),
        spec: Some(ServiceSpec {
            selector: Some(labels(NAME, &server.name)),
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

fn template(server: &Server) -> PodTemplateSpec {
    let mut spec = pod::base(None, &[]);
    spec.containers = vec![container(server)];
    spec.volumes = Some(vec![volume(server)]);
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(NAME, &server.name)),
            annotations: pod::secrets_annotation(server.secrets.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(spec),
    }
}

fn container(server: &Server) -> Container {
    let mut args =
        ["--model-id", &server.model, "--port", &server.port.to_string()].map(str::to_owned).to_vec();
    args.extend(server.args.iter().cloned());
    let home = EnvVar { name: "HF_HOME".to_owned(), value: Some(DATA.to_owned()), value_from: None };
    Container {
        name: CONTAINER.to_owned(),
        image: Some(server.image.clone()),
        image_pull_policy: Some(server.image_pull_policy.as_str().to_owned()),
        args: Some(args),
        // What is given later wins, so that people can say otherwise.
        env: Some(std::iter::once(home).chain(server.env.iter().cloned()).collect()),
        ports: Some(vec![ContainerPort {
            name: Some(PORT.to_owned()),
            container_port: server.port.into(),
            ..ContainerPort::default()
        }]),
        resources: server.resources.clone(),
        security_context: Some(pod::unprivileged()),
        startup_probe: Some(Probe {
            failure_threshold: Some(START_ATTEMPTS),
            ..pod::http_probe("/health", PORT, 10)
        }),
        readiness_probe: Some(pod::http_probe("/health", PORT, 5)),
        liveness_probe: Some(pod::http_probe("/health", PORT, 30)),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(vec![VolumeMount {
            name: "model".to_owned(),
            mount_path: DATA.to_owned(),
            read_only: is_read_only(server).then_some(true),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn is_read_only(server: &Server) -> bool {
    server.cache.as_ref().is_some_and(|cache| cache.access_mode == AccessMode::ReadOnlyMany)
}

fn volume(server: &Server) -> Volume {
    let mut volume = Volume { name: "model".to_owned(), ..Volume::default() };
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
