//! Step 3 of a reconcile, build: the Deployment, the Service and, with a bridge, the Secret of an MCPServer
//! and the ConfigMap of its guards. Pure.
//!
//! With a stdio server, an init container copies `vmcp` into a shared volume, and the server's own image
//! starts `vmcp bridge -- COMMAND`: the bridge speaks HTTP to the cluster and stdio to the program. Before a
//! guarded server that speaks HTTP, `vmcp bridge --url` runs in a container of its own.

mod bridge;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, HostPathVolumeSource, PodSpec, PodTemplateSpec, Secret, Service,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use vmcp_crds::lower::{ADMIN_TOKEN, SESSION_KEY};
use vmcp_crds::mcp_server::HostVolume;

use super::dereference::References;
use super::guards::valid_guards::ValidGuards;
use super::image_program::{self, IMAGE_PROGRAM};
use super::names::{WORKLOAD_NAME, metadata, secret_name};
use super::network_policy::network_policy;
use super::running_bridge::TEMPLATE_DIGEST;
use super::validate::{ProgramStart, ValidMCPServer};
use crate::runtime::{BuildSettings, Child, Desired, child_metadata, hex_digest, workload_labels};
use crate::workload::pod;
use crate::workload::pod_template::{self, PodTemplateError};

/// The container of the server itself.
pub(super) const CONTAINER: &str = "mcp";
/// The name of the MCP port, in the container and in the Service.
const PORT: &str = "http";
/// The user and group that programs run as: not root, as the level `restricted` wants it.
const USER: i64 = 1000;

/// Returns every object that should exist.
///
/// A running bridge keeps its image until something else in the pod template changes: an upgrade of the
/// operator must not restart the stdio servers of the whole cluster at once, and bridges of any two versions
/// do the same.
pub(super) fn build(
    server: &ValidMCPServer,
    references: &References,
    settings: &BuildSettings,
) -> Result<Desired, PodTemplateError> {
    let schema = &settings.pod_schema;
    let guards = server.guards.as_ref().map(|guards| guards.digest(&references.bridge_token));
    let template = |image: &str| {
        pod_template::merge(&template(server, image, guards.clone(), settings), &server.template, schema)
    };
    let without_image = template("")?;
    let digest = digest(&without_image);
    let running = references.running_bridge.as_ref().filter(|running| running.template_digest == digest);
    let bridge_image = running.map_or(settings.bridge_image.as_str(), |running| running.image.as_str());
    let template = template(bridge_image)?;
    let mut deployment = deployment(server);
    if server.has_bridge() {
        let annotations = deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(TEMPLATE_DIGEST.to_owned(), digest);
        if let Some(program) = &server.image_program {
            annotations.insert(IMAGE_PROGRAM.to_owned(), image_program::note(&server.image, program));
        }
    }
    // The NetworkPolicy first: the pods that follow are closed from the beginning.
    let policy = network_policy(server, &references.running_ingress, guards.as_deref(), settings);
    let policy = policy.map(|policy| Child::from_object(&policy));
    let mut children: Vec<Child> = policy.into_iter().collect();
    if server.has_bridge() || server.secrets.is_some() {
        children.push(Child::from_object(&secret(server, references)));
    }
    if let Some(guards) = &server.guards {
        children.push(Child::from_object(&bridge::guards_map(server, guards)));
    }
    children.push(Child::from_object(&service(server)));
    // A quota or an object of others may stand in the way of these: pods come after the objects that close
    // them. An annotation of the Service may lead out of the cluster, and goes before a guard.
    let closing: Vec<_> = children.iter().map(|child| (child.kind(), child.name().to_owned())).collect();
    children.push(Child::from_object(&deployment).with_pod_template(template).only_after(closing));
    Ok(Desired { children, keep: Vec::new() })
}

/// Returns the first 16 bytes of the SHA-256 of a pod template, in hex.
fn digest(template: &Value) -> String {
    // A pod template always serializes.
    hex_digest(serde_json::to_vec(template).unwrap_or_default(), 32)
}

fn secret(server: &ValidMCPServer, references: &References) -> Secret {
    let mut data: BTreeMap<_, _> =
        [(ADMIN_TOKEN.to_owned(), ByteString(references.bridge_token.clone()))].into();
    if let Some(guards) = &server.guards {
        data.insert(SESSION_KEY.to_owned(), ByteString(references.session_key.clone()));
        data.extend(guards.files.iter().map(|(file, value)| (file.clone(), ByteString(value.clone()))));
    }
    Secret {
        metadata: child_metadata(secret_name(&server.name), WORKLOAD_NAME, &server.name),
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// Returns the Deployment without its pod template.
fn deployment(server: &ValidMCPServer) -> Deployment {
    Deployment {
        metadata: server.overrides.proxy_deployment.workload.on(metadata(&server.name)),
        spec: Some(DeploymentSpec {
            replicas: server.replicas,
            selector: LabelSelector {
                match_labels: Some(workload_labels(WORKLOAD_NAME, &server.name)),
                match_expressions: None,
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn service(server: &ValidMCPServer) -> Service {
    let mut selector = workload_labels(WORKLOAD_NAME, &server.name);
    if server.guards.is_some() {
        // Pods from before the first guard would serve every caller until they are replaced.
        selector.insert(ValidGuards::label(), "true".to_owned());
    }
    Service {
        metadata: server.overrides.proxy_service.on(metadata(&server.name)),
        spec: Some(ServiceSpec {
            // The default, and among the desired fields: an edit to `ExternalName` would lead elsewhere.
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector),
            session_affinity: Some(server.session_affinity.as_str().to_owned()),
            // Addresses of both families where the cluster has both.
            ip_family_policy: Some("PreferDualStack".to_owned()),
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

fn template(
    server: &ValidMCPServer,
    bridge_image: &str,
    guards: Option<String>,
    settings: &BuildSettings,
) -> PodTemplateSpec {
    let pull_secrets = settings.pull_secrets(&server.image_pull_secrets);
    let base = pod::base(server.service_account.as_deref(), &pull_secrets);
    let user = settings.fixed_user.then_some(USER);
    let mut spec = PodSpec {
        security_context: Some(pod::non_root(base.security_context.unwrap_or_default(), user)),
        ..base
    };
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(server.image.clone()),
        image_pull_policy: server.image_pull_policy.map(|policy| policy.as_str().to_owned()),
        env: Some(env(server)),
        resources: Some(server.resources.clone().unwrap_or_else(|| pod::resources("50m", "128Mi", "1Gi"))),
        security_context: Some(pod::unprivileged()),
        // The last lines that a program prints before it fails say why; they end up in the resource's status.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    };
    let volumes: Vec<Volume> = server.volumes.iter().map(host_volume).collect();
    let mounts: Vec<VolumeMount> = server.volumes.iter().map(host_mount).collect();
    let container = Container { volume_mounts: (!mounts.is_empty()).then_some(mounts), ..container };
    match &server.start {
        ProgramStart::ByBridge(command) => {
            spec.init_containers = Some(vec![bridge::install(bridge_image)]);
            spec.containers = vec![bridge::around(server, container, command)];
            spec.volumes = Some([vec![bridge::volume()], bridge::file_volumes(server), volumes].concat());
            spec.termination_grace_period_seconds = Some(bridge::GRACE_SECONDS);
        }
        ProgramStart::ByImage { command, args, port } => {
            // The name leads the Service to the container that serves clients.
            let name = if server.guards.is_some() { bridge::SERVER_PORT } else { PORT };
            spec.containers = vec![Container {
                command: (!command.is_empty()).then(|| command.clone()),
                args: (!args.is_empty()).then(|| args.clone()),
                ports: Some(vec![container_port(name, *port)]),
                readiness_probe: Some(pod::tcp_probe(name, 5)),
                ..container
            }];
            let mut volumes = volumes;
            if server.guards.is_some() {
                spec.containers.push(bridge::before(server, bridge_image, *port));
                spec.termination_grace_period_seconds = Some(bridge::GRACE_SECONDS);
                volumes.extend(bridge::file_volumes(server));
            }
            spec.volumes = (!volumes.is_empty()).then_some(volumes);
        }
    }
    let mut labels = workload_labels(WORKLOAD_NAME, &server.name);
    let mut annotations = pod::secrets_annotation(server.secrets.clone()).unwrap_or_default();
    if let Some(digest) = guards {
        labels.insert(ValidGuards::label(), "true".to_owned());
        annotations.insert(ValidGuards::annotation(), digest);
    }
    PodTemplateSpec {
        metadata: Some(server.overrides.proxy_deployment.workload.on_pods(ObjectMeta {
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        })),
        spec: Some(spec),
    }
}

fn host_volume(HostVolume { name, host_path, .. }: &HostVolume) -> Volume {
    let source = HostPathVolumeSource { path: host_path.clone(), type_: None };
    Volume { name: name.clone(), host_path: Some(source), ..Volume::default() }
}

fn host_mount(HostVolume { name, mount_path, read_only, .. }: &HostVolume) -> VolumeMount {
    mount(name, mount_path, *read_only)
}

/// Returns the variables of the container. Without a `HOME` of its own, a program that runs as a user whom
/// its image does not know would find none that it can write to.
fn env(server: &ValidMCPServer) -> Vec<EnvVar> {
    let has_home = server.env.iter().any(|variable| variable.name == "HOME");
    let home = EnvVar { name: "HOME".to_owned(), value: Some("/tmp".to_owned()), value_from: None };
    (!has_home).then_some(home).into_iter().chain(server.env.iter().cloned()).collect()
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn container_port(name: &str, port: u16) -> ContainerPort {
    ContainerPort { name: Some(name.to_owned()), container_port: port.into(), ..ContainerPort::default() }
}
