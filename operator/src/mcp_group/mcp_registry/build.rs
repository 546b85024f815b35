//! Step 3 of a reconcile, build: ConfigMap, Deployment and Service of an MCPRegistry. Pure.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar, KeyToPath,
    PodSpec, PodTemplateSpec, SecretVolumeSource, Service, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::GROUP;
use vmcp_crds::fields::references::SecretKeyReference;

use super::validate::ValidMCPRegistry;
use super::{WORKLOAD_NAME, child_name, digest_secret_name};
use crate::references::digest_key_secret;
use crate::runtime::{BuildSettings, Child, ChildKind, Desired, child_metadata, hex_digest, workload_labels};
use crate::workload::pod;
use crate::workload::pod_template::{self, PodTemplateError};

/// The container of the registry server, by which `spec.podTemplateSpec` changes its image.
pub(super) const CONTAINER: &str = "registry-api";
/// The image, as ToolHive's operator has it.
const IMAGE: &str = "ghcr.io/stacklok/thv-registry-api:latest";
/// The image of the init container, as ToolHive's operator has it. It runs as the user of the registry
/// server.
const PGPASS_IMAGE: &str = "cgr.dev/chainguard/busybox:latest";
/// The user and group of the registry server's image.
const USER: i64 = 65_532;
/// The port for clients.
pub(super) const PORT: u16 = 8080;
/// The port for probes.
const PROBE_PORT: u16 = 8081;
/// Where the configuration is mounted.
const CONFIG_DIR: &str = "/config";
/// The file of the configuration.
const CONFIG_FILE: &str = "config.yaml";
/// Where the registry server finds the passwords of the database.
const PGPASS: &str = "/home/appuser/.pgpass";

/// Returns every object that should exist.
pub(super) fn build(
    registry: &ValidMCPRegistry,
    settings: &BuildSettings,
) -> Result<Desired, PodTemplateError> {
    let template =
        pod_template::merge(&template(registry, settings), &registry.template, &settings.pod_schema)?;
    let key = registry.digest_key.as_ref().map(|key| {
        let name = digest_secret_name(&registry.name);
        digest_key_secret(child_metadata(name, WORKLOAD_NAME, &registry.name), key)
    });
    let mut children: Vec<Child> = key.iter().map(Child::from_object).collect();
    // A ConfigMap of others would be the file of the pod.
    let file = (ChildKind::ConfigMap, child_name(&registry.name));
    children.extend([
        Child::from_object(&config_map(registry)),
        Child::from_object(&deployment(registry)).with_pod_template(template).only_after([file]),
        Child::from_object(&service(registry)),
    ]);
    Ok(Desired { children, keep: Vec::new() })
}

fn metadata(registry: &ValidMCPRegistry) -> ObjectMeta {
    child_metadata(child_name(&registry.name), WORKLOAD_NAME, &registry.name)
}

fn config_map(registry: &ValidMCPRegistry) -> ConfigMap {
    ConfigMap {
        metadata: metadata(registry),
        data: Some([(CONFIG_FILE.to_owned(), registry.config.clone())].into()),
        ..ConfigMap::default()
    }
}

/// Returns the Deployment without its pod template.
fn deployment(registry: &ValidMCPRegistry) -> Deployment {
    Deployment {
        metadata: metadata(registry),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector {
                match_labels: Some(workload_labels(WORKLOAD_NAME, &registry.name)),
                match_expressions: None,
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn service(registry: &ValidMCPRegistry) -> Service {
    Service {
        metadata: metadata(registry),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(workload_labels(WORKLOAD_NAME, &registry.name)),
            ip_family_policy: Some("PreferDualStack".to_owned()),
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: PORT.into(),
                target_port: Some(IntOrString::String("http".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn template(registry: &ValidMCPRegistry, settings: &BuildSettings) -> PodTemplateSpec {
    // The registry server reads its file at its start only.
    let digest = hex_digest(&registry.config, 16);
    let mut annotations = pod::secrets_annotation(registry.secrets.clone()).unwrap_or_default();
    annotations.insert(format!("{GROUP}/configuration-digest"), digest);
    let pull_secrets = settings.pull_secrets(&registry.image_pull_secrets);
    let base = pod::base(registry.service_account.as_deref(), &pull_secrets);
    let user = settings.fixed_user.then_some(USER);
    let mut spec = PodSpec {
        security_context: Some(pod::non_root(base.security_context.unwrap_or_default(), user)),
        ..base
    };
    let config =
        ConfigMapVolumeSource { name: child_name(&registry.name), ..ConfigMapVolumeSource::default() };
    let config =
        Volume { name: "registry-server-config".to_owned(), config_map: Some(config), ..Volume::default() };
    let mut volumes = vec![config];
    volumes.extend(registry.volumes.iter().cloned());
    if let Some(secret) = &registry.pgpass {
        spec.init_containers = Some(vec![setup_pgpass()]);
        volumes.extend(pgpass_volumes(secret));
    }
    spec.volumes = Some(volumes);
    spec.containers = vec![container(registry)];
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(workload_labels(WORKLOAD_NAME, &registry.name)),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(spec),
    }
}

fn container(registry: &ValidMCPRegistry) -> Container {
    let mut mounts = vec![mount("registry-server-config", CONFIG_DIR, true)];
    mounts.extend(registry.mounts.iter().cloned());
    let mut env = Vec::new();
    if registry.pgpass.is_some() {
        let sub_path = Some(".pgpass".to_owned());
        mounts.push(VolumeMount { sub_path, ..mount("pgpass", PGPASS, true) });
        let value = Some(PGPASS.to_owned());
        env.push(EnvVar { name: "PGPASSFILE".to_owned(), value, value_from: None });
    }
    let port = |name: &str, port: u16| ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        ..ContainerPort::default()
    };
    Container {
        name: CONTAINER.to_owned(),
        image: Some(IMAGE.to_owned()),
        args: Some(vec!["serve".to_owned(), format!("--config={CONFIG_DIR}/{CONFIG_FILE}")]),
        env: (!env.is_empty()).then_some(env),
        ports: Some(vec![port("http", PORT), port("probes", PROBE_PORT)]),
        readiness_probe: Some(pod::http_probe("/readiness", "probes", 5)),
        liveness_probe: Some(pod::http_probe("/health", "probes", 10)),
        resources: Some(pod::resources("100m", "128Mi", "512Mi")),
        security_context: Some(pod::unprivileged()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// Returns the init container that copies the passwords: PostgreSQL's library takes a file of mode 0600
/// alone, and a mounted Secret cannot have that mode for this user.
fn setup_pgpass() -> Container {
    let mut security = pod::unprivileged();
    security.read_only_root_filesystem = Some(true);
    let copy = "cp /secret/.pgpass /pgpass/.pgpass && chmod 0600 /pgpass/.pgpass";
    Container {
        name: "setup-pgpass".to_owned(),
        image: Some(PGPASS_IMAGE.to_owned()),
        command: Some(["sh", "-c", copy].map(str::to_owned).to_vec()),
        volume_mounts: Some(vec![mount("pgpass-secret", "/secret", true), mount("pgpass", "/pgpass", false)]),
        security_context: Some(security),
        resources: Some(pod::resources("10m", "16Mi", "32Mi")),
        ..Container::default()
    }
}

fn pgpass_volumes(SecretKeyReference { name, key }: &SecretKeyReference) -> [Volume; 2] {
    let item = KeyToPath { key: key.clone(), path: ".pgpass".to_owned(), mode: None };
    let secret = SecretVolumeSource {
        secret_name: Some(name.clone()),
        items: Some(vec![item]),
        ..SecretVolumeSource::default()
    };
    [
        Volume { name: "pgpass-secret".to_owned(), secret: Some(secret), ..Volume::default() },
        Volume {
            name: "pgpass".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
    ]
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
