//! Containers and volumes of the bridge, a part of step 3, build. Pure.

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, SecretVolumeSource, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use vmcp_config::Isolation;
use vmcp_crds::lower::{ADMIN_PORT, ADMIN_TOKEN, SECRETS_DIR};

use super::super::guards::valid_guards::ValidGuards;
use super::super::guards::{GUARDS_DIR, GUARDS_FILE};
use super::super::names::{WORKLOAD_NAME, config_map_name, secret_name};
use super::super::running_bridge::BRIDGE;
use super::super::validate::ValidMCPServer;
use super::{PORT, container_port, mount};
use crate::runtime::child_metadata;
use crate::workload::pod;

/// The name of a guarded server's own port.
pub(super) const SERVER_PORT: &str = "server";
/// The name of the bridge's port for probes and status.
const ADMIN: &str = "admin";
/// The time for which the bridge still takes connections after SIGTERM, until all nodes have removed it from
/// the Service.
const SHUTDOWN_DELAY_SECONDS: i64 = 5;
/// The delay, 30 s that the bridge waits for calls in flight, and 10 s for the program to end.
pub(super) const GRACE_SECONDS: i64 = SHUTDOWN_DELAY_SECONDS + 30 + 10;
/// The volume with the token of the bridge's admin port, and the values that guards refer to.
const TOKEN: &str = "bridge-admin";
/// The volume with the guards.
const GUARDS: &str = "bridge-guards";
/// The directory that the bridge is copied to.
const BRIDGE_DIR: &str = "/bridge";
/// The directory that the token is mounted at.
const TOKEN_DIR: &str = "/bridge-admin";

/// Returns the ConfigMap with the guards.
pub(super) fn guards_map(server: &ValidMCPServer, guards: &ValidGuards) -> ConfigMap {
    ConfigMap {
        metadata: child_metadata(config_map_name(&server.name), WORKLOAD_NAME, &server.name),
        data: Some([(GUARDS_FILE.to_owned(), guards.text.clone())].into()),
        ..ConfigMap::default()
    }
}

/// Returns the init container that copies the bridge into the shared volume: the image of the server may hold
/// nothing but the server, not even a shell.
pub(super) fn install(image: &str) -> Container {
    let mut security = pod::unprivileged();
    security.read_only_root_filesystem = Some(true);
    Container {
        name: BRIDGE.to_owned(),
        image: Some(image.to_owned()),
        args: Some(["bridge", "--install", BRIDGE_DIR].map(str::to_owned).to_vec()),
        volume_mounts: Some(vec![mount(BRIDGE, BRIDGE_DIR, false)]),
        security_context: Some(security),
        resources: Some(pod::resources("10m", "16Mi", "64Mi")),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// Starts `command` behind the bridge, in the container of the server.
pub(super) fn around(server: &ValidMCPServer, container: Container, command: &[String]) -> Container {
    let mut words = vec![format!("{BRIDGE_DIR}/vmcp")];
    words.extend(options(server));
    words.push("--".to_owned());
    words.extend(command.iter().cloned());
    let own = vec![mount(BRIDGE, BRIDGE_DIR, true)];
    let of_server = container.volume_mounts.clone().unwrap_or_default();
    Container {
        command: Some(words),
        volume_mounts: Some([own, file_mounts(server), of_server].concat()),
        ..serving(server, container)
    }
}

/// Returns the container of a bridge before a server that listens at `port` of the pod.
pub(super) fn before(server: &ValidMCPServer, image: &str, port: u16) -> Container {
    let mut security = pod::unprivileged();
    security.read_only_root_filesystem = Some(true);
    let mut args = options(server);
    args.extend(["--name".to_owned(), server.name.clone()]);
    args.extend(["--url".to_owned(), format!("http://127.0.0.1:{port}{}", server.path)]);
    if server.is_sse {
        args.extend(["--transport", "sse"].map(str::to_owned));
    }
    let container = Container {
        name: BRIDGE.to_owned(),
        image: Some(image.to_owned()),
        args: Some(args),
        volume_mounts: Some(file_mounts(server)),
        security_context: Some(security),
        resources: Some(pod::resources("20m", "32Mi", "256Mi")),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    };
    serving(server, container)
}

/// Returns the container with the ports and the probe of a bridge.
fn serving(server: &ValidMCPServer, container: Container) -> Container {
    Container {
        ports: Some(vec![container_port(PORT, server.client_port()), container_port(ADMIN, ADMIN_PORT)]),
        readiness_probe: Some(pod::http_probe("/readyz", ADMIN, 3)),
        ..container
    }
}

/// Returns the subcommand and its options. Each connection to the bridge is one owner's already: `principal`
/// there would be the address of the pod that connects.
fn options(server: &ValidMCPServer) -> Vec<String> {
    let mut words: Vec<String> = vec![
        "bridge".to_owned(),
        "--listen".to_owned(),
        format!("[::]:{}", server.client_port()),
        "--admin-listen".to_owned(),
        format!("[::]:{ADMIN_PORT}"),
        "--admin-token-file".to_owned(),
        format!("{TOKEN_DIR}/{ADMIN_TOKEN}"),
        "--shutdown-delay".to_owned(),
        format!("{SHUTDOWN_DELAY_SECONDS}s"),
    ];
    if server.guards.is_some() {
        words.extend(["--guards".to_owned(), format!("{GUARDS_DIR}/{GUARDS_FILE}")]);
    }
    if let Some(isolation) = server.isolation {
        let shared = if isolation == Isolation::Shared { "shared" } else { "session" };
        words.extend(["--isolation".to_owned(), shared.to_owned()]);
    }
    words
}

/// Returns the volume that the bridge is copied to.
pub(super) fn volume() -> Volume {
    let directory = EmptyDirVolumeSource { size_limit: Some(Quantity("1Gi".to_owned())), medium: None };
    Volume { name: BRIDGE.to_owned(), empty_dir: Some(directory), ..Volume::default() }
}

/// Returns the volumes with token and guards. They are readable for all users: the image's user is not known.
pub(super) fn file_volumes(server: &ValidMCPServer) -> Vec<Volume> {
    let secret =
        SecretVolumeSource { secret_name: Some(secret_name(&server.name)), ..SecretVolumeSource::default() };
    let mut volumes = vec![Volume { name: TOKEN.to_owned(), secret: Some(secret), ..Volume::default() }];
    if server.guards.is_some() {
        let map =
            ConfigMapVolumeSource { name: config_map_name(&server.name), ..ConfigMapVolumeSource::default() };
        volumes.push(Volume { name: GUARDS.to_owned(), config_map: Some(map), ..Volume::default() });
    }
    volumes
}

/// Returns the mounts of these volumes.
fn file_mounts(server: &ValidMCPServer) -> Vec<VolumeMount> {
    let mut mounts = vec![mount(TOKEN, TOKEN_DIR, true)];
    if server.guards.is_some() {
        // The path by which guards refer to values.
        mounts.push(mount(TOKEN, SECRETS_DIR, true));
        mounts.push(mount(GUARDS, GUARDS_DIR, true));
    }
    mounts
}
