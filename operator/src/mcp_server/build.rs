//! Step 3 of a reconcile, build: the Deployment, the Service and, with a bridge, the Secret of an MCPServer.
//! Pure.
//!
//! With a stdio server, an init container copies `vmcp` into a shared volume, and the server's own image
//! starts `vmcp bridge -- COMMAND`: the bridge speaks HTTP to the cluster and stdio to the program.

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, PodSpec, PodTemplateSpec, Secret,
    SecretVolumeSource, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use vmcp_config::Isolation;
use vmcp_crds::lower::{ADMIN_PORT, ADMIN_TOKEN};

use super::dereference::References;
use super::image_program::{self, IMAGE_PROGRAM};
use super::names::{WORKLOAD_NAME, metadata, secret_name};
use super::network_policy::network_policy;
use super::running_bridge::{BRIDGE, BRIDGE_PORT, TEMPLATE_DIGEST};
use super::validate::{ProgramStart, ValidMCPServer};
use crate::runtime::{BuildSettings, Child, Desired, child_metadata, workload_labels};
use crate::workload::pod;
use crate::workload::pod_template::{self, PodTemplateError};

/// The container of the server itself.
pub(super) const CONTAINER: &str = "mcp";
/// The name of the MCP port, in the container and in the Service.
const PORT: &str = "http";
/// The name of the bridge's port for probes and status.
const ADMIN: &str = "admin";
/// The time for which the bridge still takes connections after SIGTERM, until all nodes have removed it from
/// the Service.
const SHUTDOWN_DELAY_SECONDS: i64 = 5;
/// The delay, 30 s that the bridge waits for calls in flight, and 10 s for the program to end.
const GRACE_SECONDS: i64 = SHUTDOWN_DELAY_SECONDS + 30 + 10;
/// The volume with the token of the bridge's admin port.
const TOKEN: &str = "bridge-admin";
/// The directory that the bridge is copied to.
const BRIDGE_DIR: &str = "/bridge";
/// The user and group that programs run as: not root, as the level `restricted` wants it.
const USER: i64 = 1000;
/// The directory that the token is mounted at.
const TOKEN_DIR: &str = "/bridge-admin";

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
    let without_image = pod_template::merge(&template(server, "", settings), &server.template, schema)?;
    let digest = digest(&without_image);
    let running = references.running_bridge.as_ref().filter(|running| running.template_digest == digest);
    let bridge_image = running.map_or(settings.bridge_image.as_str(), |running| running.image.as_str());
    let template = pod_template::merge(&template(server, bridge_image, settings), &server.template, schema)?;
    let mut deployment = deployment(server);
    if let ProgramStart::ByBridge(_) = server.start {
        let annotations = deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(TEMPLATE_DIGEST.to_owned(), digest);
        if let Some(program) = &server.image_program {
            annotations.insert(IMAGE_PROGRAM.to_owned(), image_program::note(&server.image, program));
        }
    }
    // The NetworkPolicy first: the pods that follow are closed from the beginning.
    let policy = network_policy(server, settings).map(|policy| Child::from_object(&policy));
    let mut children: Vec<Child> = policy.into_iter().collect();
    if matches!(server.start, ProgramStart::ByBridge(_)) || server.secrets.is_some() {
        children.push(Child::from_object(&secret(server, &references.bridge_token)));
    }
    children.extend([
        Child::from_object(&deployment).with_pod_template(template),
        Child::from_object(&service(server)),
    ]);
    Ok(Desired { children, keep: Vec::new() })
}

/// Returns the first 16 bytes of the SHA-256 of a pod template, in hex.
fn digest(template: &Value) -> String {
    // A pod template always serializes.
    let text = serde_json::to_vec(template).unwrap_or_default();
    let mut digest = hex::encode(Sha256::digest(text));
    digest.truncate(32);
    digest
}

fn secret(server: &ValidMCPServer, token: &[u8]) -> Secret {
    Secret {
        metadata: child_metadata(secret_name(&server.name), WORKLOAD_NAME, &server.name),
        type_: Some("Opaque".to_owned()),
        data: Some([(ADMIN_TOKEN.to_owned(), ByteString(token.to_vec()))].into()),
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
    Service {
        metadata: server.overrides.proxy_service.on(metadata(&server.name)),
        spec: Some(ServiceSpec {
            selector: Some(workload_labels(WORKLOAD_NAME, &server.name)),
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

fn template(server: &ValidMCPServer, bridge_image: &str, settings: &BuildSettings) -> PodTemplateSpec {
    let base = pod::base(server.service_account.as_deref(), &server.image_pull_secrets);
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
    spec.containers = vec![match &server.start {
        ProgramStart::ByBridge(command) => {
            spec.init_containers = Some(vec![install(bridge_image)]);
            spec.volumes = Some(vec![bridge_volume(), token_volume(server)]);
            spec.termination_grace_period_seconds = Some(GRACE_SECONDS);
            bridged(container, server.isolation, command)
        }
        ProgramStart::ByImage { command, args, port } => Container {
            command: (!command.is_empty()).then(|| command.clone()),
            args: (!args.is_empty()).then(|| args.clone()),
            ports: Some(vec![container_port(PORT, *port)]),
            readiness_probe: Some(pod::tcp_probe(PORT, 5)),
            ..container
        },
    }];
    PodTemplateSpec {
        metadata: Some(server.overrides.proxy_deployment.workload.on_pods(ObjectMeta {
            labels: Some(workload_labels(WORKLOAD_NAME, &server.name)),
            annotations: pod::secrets_annotation(server.secrets.clone()),
            ..ObjectMeta::default()
        })),
        spec: Some(spec),
    }
}

/// Returns the variables of the container. Without a `HOME` of its own, a program that runs as a user whom
/// its image does not know would find none that it can write to.
fn env(server: &ValidMCPServer) -> Vec<EnvVar> {
    let has_home = server.env.iter().any(|variable| variable.name == "HOME");
    let home = EnvVar { name: "HOME".to_owned(), value: Some("/tmp".to_owned()), value_from: None };
    (!has_home).then_some(home).into_iter().chain(server.env.iter().cloned()).collect()
}

/// Returns the init container that copies the bridge into the shared volume: the image of the server may hold
/// nothing but the server, not even a shell.
fn install(bridge_image: &str) -> Container {
    let mut security = pod::unprivileged();
    security.read_only_root_filesystem = Some(true);
    Container {
        name: BRIDGE.to_owned(),
        image: Some(bridge_image.to_owned()),
        args: Some(["bridge", "--install", BRIDGE_DIR].map(str::to_owned).to_vec()),
        volume_mounts: Some(vec![mount(BRIDGE, BRIDGE_DIR, false)]),
        security_context: Some(security),
        resources: Some(pod::resources("10m", "16Mi", "64Mi")),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// Starts `command` behind the bridge. Each connection to the bridge is one owner's already: `principal`
/// there would be the address of the pod that connects.
fn bridged(container: Container, isolation: Option<Isolation>, command: &[String]) -> Container {
    let mut words: Vec<String> = vec![
        format!("{BRIDGE_DIR}/vmcp"),
        "bridge".to_owned(),
        "--listen".to_owned(),
        format!("[::]:{BRIDGE_PORT}"),
        "--admin-listen".to_owned(),
        format!("[::]:{ADMIN_PORT}"),
        "--admin-token-file".to_owned(),
        format!("{TOKEN_DIR}/{ADMIN_TOKEN}"),
        "--shutdown-delay".to_owned(),
        format!("{SHUTDOWN_DELAY_SECONDS}s"),
    ];
    if let Some(isolation) = isolation {
        let shared = if isolation == Isolation::Shared { "shared" } else { "session" };
        words.extend(["--isolation".to_owned(), shared.to_owned()]);
    }
    words.push("--".to_owned());
    words.extend(command.iter().cloned());
    Container {
        command: Some(words),
        ports: Some(vec![container_port(PORT, BRIDGE_PORT), container_port(ADMIN, ADMIN_PORT)]),
        readiness_probe: Some(pod::http_probe("/readyz", ADMIN, 3)),
        volume_mounts: Some(vec![mount(BRIDGE, BRIDGE_DIR, true), mount(TOKEN, TOKEN_DIR, true)]),
        ..container
    }
}

fn bridge_volume() -> Volume {
    let directory = EmptyDirVolumeSource { size_limit: Some(Quantity("1Gi".to_owned())), medium: None };
    Volume { name: BRIDGE.to_owned(), empty_dir: Some(directory), ..Volume::default() }
}

/// Mounted readable for all users: the image's user is not known, and no other program is in the container.
fn token_volume(server: &ValidMCPServer) -> Volume {
    let secret =
        SecretVolumeSource { secret_name: Some(secret_name(&server.name)), ..SecretVolumeSource::default() };
    Volume { name: TOKEN.to_owned(), secret: Some(secret), ..Volume::default() }
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
