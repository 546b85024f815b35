//! Step 2 of a reconcile, validate: checks name, command, port and variables, and returns a
//! [`ValidMCPServer`]. Pure.

pub(super) mod added_program;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use vmcp_config::Isolation;
use vmcp_crds::fields::resource_overrides::MCPServerOverrides;
use vmcp_crds::fields::workload::{ImagePullPolicy, SessionAffinity};
use vmcp_crds::lower::CLIENT_PORT;
use vmcp_crds::mcp_server::{HostVolume, MCPServerNetworkPolicy, MCPServerTransport};
use vmcp_crds::{Block, Invalid, MCPServer, Problem};

use super::dereference::{References, secret_references};
use super::guards::check_egress;
use super::guards::valid_guards::ValidGuards;
use super::image_program::ImageProgramState;
use super::permission_profile::{Egress, permissions};
use super::running_bridge::BRIDGE_PORT;
use crate::registry::ImageProgram;
use crate::workload::pod;

/// The longest name in bytes: `mcp-NAME` is the name of a Service, which has at most 63 characters.
const MAX_NAME_LENGTH: usize = 59;

/// A valid MCPServer, the only input of [`build`](super::build).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValidMCPServer {
    pub name: String,
    pub start: ProgramStart,
    /// The program of the image, where the server names none.
    pub image_program: Option<ImageProgram>,
    pub image: String,
    pub image_pull_policy: Option<ImagePullPolicy>,
    pub image_pull_secrets: Vec<LocalObjectReference>,
    pub env: Vec<EnvVar>,
    pub resources: Option<ResourceRequirements>,
    /// The port of the Service.
    pub port: u16,
    pub session_affinity: SessionAffinity,
    /// Clients that share a process of a stdio server.
    pub isolation: Option<Isolation>,
    /// The number of pods; `None` leaves it to an autoscaler or a person, beginning with one.
    pub replicas: Option<i32>,
    pub service_account: Option<String>,
    /// The MCPGroup; `None` if the server belongs to none.
    pub group: Option<String>,
    /// Peers that may connect to the pods.
    pub network_policy: MCPServerNetworkPolicy,
    /// Other namespaces whose VirtualMCPServers may connect to the pods.
    pub granted_namespaces: BTreeSet<String>,
    /// Outgoing connections that the pods may make.
    pub egress: Egress,
    pub template: Block,
    /// Labels and annotations of the objects that are made.
    pub overrides: MCPServerOverrides,
    /// A digest of the values of Secrets; `None` without any.
    pub secrets: Option<String>,
    /// Folders of the node for the container.
    pub volumes: Vec<HostVolume>,
    /// Path of the server in the container, which a bridge before it calls.
    pub path: String,
    /// True if the server speaks the older HTTP+SSE transport.
    pub is_sse: bool,
    /// The guards that the bridge follows; `None`: a bridge serves every caller.
    pub guards: Option<ValidGuards>,
}

impl ValidMCPServer {
    /// Returns the port of the container that serves clients: the bridge's, where there is one.
    pub(super) fn client_port(&self) -> u16 {
        match (&self.start, &self.guards) {
            (ProgramStart::ByBridge(_), _) => BRIDGE_PORT,
            // The server beside it may have that port.
            (ProgramStart::ByImage { .. }, Some(_)) => CLIENT_PORT,
            (ProgramStart::ByImage { port, .. }, None) => *port,
        }
    }

    /// Returns true if the server has a port of its own beside that of its guard.
    pub(super) fn listens_beside_bridge(&self) -> bool {
        matches!(self.start, ProgramStart::ByImage { .. }) && self.guards.is_some()
    }

    /// Returns true if a bridge serves clients.
    pub(super) fn has_bridge(&self) -> bool {
        matches!(self.start, ProgramStart::ByBridge(_)) || self.guards.is_some()
    }
}

/// The way in which the program is started, and where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgramStart {
    /// The bridge starts it: program and arguments.
    ByBridge(Vec<String>),
    /// The image starts it, with its own entrypoint and arguments, or with the given ones.
    ByImage { command: Vec<String>, args: Vec<String>, port: u16 },
}

/// Returns the valid server, or every problem of the resource. `references` hold all values that it refers
/// to, and the program of its image.
pub(super) fn validate(
    server: &MCPServer,
    references: &References,
    guards: Option<ValidGuards>,
) -> Result<ValidMCPServer, Invalid> {
    let spec = &server.spec;
    let name = server.metadata.name.clone().unwrap_or_default();
    let mut problems = Vec::new();
    if name.len() > MAX_NAME_LENGTH || name.contains('.') {
        let remedy = format!(
            "choose one of at most {MAX_NAME_LENGTH} characters without dots, for `mcp-NAME` names a Service"
        );
        problems.push(Problem::new("metadata.name", "not usable as a name", remedy));
    }
    spec.resource_overrides.check(&mut problems);
    check_webhooks(server, &mut problems);
    check_volumes(server, &mut problems);
    if let Some(rules) = &references.rules_of_adder {
        added_program::check(server, rules, &mut problems);
    }
    let egress = egress(server, references, &mut problems);
    check_egress(server, references, &egress, &mut problems);
    let is_sse = spec.transport == MCPServerTransport::Sse;
    let secrets = secret_references(server);
    let image_program = match &references.image_program {
        ImageProgramState::Known(program) => Some(program),
        _ => None,
    };
    let server = ValidMCPServer {
        start: start(server, image_program, &mut problems),
        image_program: image_program.cloned(),
        image: spec.image.clone(),
        image_pull_policy: spec.image_pull_policy,
        image_pull_secrets: spec.all_pull_secrets(),
        env: env(server, &mut problems),
        resources: spec.resources.clone(),
        port: spec.proxy_port,
        session_affinity: spec.session_affinity,
        isolation: spec.isolation,
        replicas: if spec.enabled == Some(false) { Some(0) } else { spec.replicas.or(spec.backend_replicas) },
        service_account: spec.service_account.clone(),
        group: spec.group_ref.as_ref().map(|group| group.name.clone()),
        network_policy: spec.network_policy.clone().unwrap_or_default(),
        // VirtualMCPServers of other namespaces ask no webhooks for the server.
        granted_namespaces: match spec.webhook_config_ref {
            Some(_) => BTreeSet::new(),
            None => references.granted_namespaces.clone(),
        },
        egress,
        template: spec.pod_template_spec.clone(),
        overrides: spec.resource_overrides.clone(),
        // The token of the bridge is also the key of the digest.
        secrets: (!secrets.is_empty()).then(|| {
            let running = references.running_digest.clone();
            references.secrets.digest_of_pods(&secrets, &references.bridge_token, running)
        }),
        volumes: spec.volumes.clone(),
        path: spec.path.clone().unwrap_or_else(|| if is_sse { "/sse" } else { "/mcp" }.to_owned()),
        is_sse,
        guards,
        name,
    };
    if problems.is_empty() { Ok(server) } else { Err(Invalid(problems)) }
}

/// Refuses a server that admits other callers than VirtualMCPServers although it names webhooks, which
/// VirtualMCPServers alone ask.
fn check_webhooks(server: &MCPServer, problems: &mut Vec<Problem>) {
    let spec = &server.spec;
    if spec.webhook_config_ref.is_none() {
        return;
    }
    let (path, callers, setting) = match &spec.network_policy {
        Some(policy) if !policy.enabled => {
            ("spec.networkPolicy.enabled", "every pod", "networkPolicy.enabled: false")
        }
        Some(policy) if !policy.ingress_from.is_empty() => {
            ("spec.networkPolicy.ingressFrom", "these peers", "networkPolicy.ingressFrom")
        }
        _ => return,
    };
    let message = format!(
        "`spec.webhookConfigRef` is followed by VirtualMCPServers alone, so that {callers} could call the server \
         past its webhooks"
    );
    let remedy = format!("remove `{setting}`, or remove `webhookConfigRef`");
    problems.push(Problem::new(path, message, remedy));
}

/// Refuses volumes with the names of the operator's own, and paths that are not absolute.
fn check_volumes(server: &MCPServer, problems: &mut Vec<Problem>) {
    for (index, HostVolume { name, host_path, mount_path, .. }) in server.spec.volumes.iter().enumerate() {
        if name.starts_with("bridge") {
            let message = format!("`{name}` is a name of the operator's own volumes");
            let path = format!("spec.volumes[{index}].name");
            problems.push(Problem::new(path, message, "choose a name that does not begin with `bridge`"));
        }
        for (field, path) in [("hostPath", host_path), ("mountPath", mount_path)] {
            if !path.starts_with('/') {
                let place = format!("spec.volumes[{index}].{field}");
                problems.push(Problem::new(place, "not an absolute path", "begin it with `/`"));
            }
        }
    }
}

/// Decides who starts the program; a stdio server has a command, of its own or of its image, and neither port
/// nor path.
fn start(
    server: &MCPServer,
    image_program: Option<&ImageProgram>,
    problems: &mut Vec<Problem>,
) -> ProgramStart {
    let spec = &server.spec;
    if spec.transport != MCPServerTransport::Stdio {
        return ProgramStart::ByImage {
            command: spec.command.clone(),
            args: spec.args.clone(),
            port: spec.mcp_port.unwrap_or(spec.proxy_port),
        };
    }
    for (path, is_given) in [("spec.mcpPort", spec.mcp_port.is_some()), ("spec.path", spec.path.is_some())] {
        if is_given {
            let remedy = "remove it, or set `transport: streamable-http`";
            problems.push(Problem::new(path, "means nothing with `transport: stdio`", remedy));
        }
    }
    ProgramStart::ByBridge(match image_program {
        Some(program) => program.words(&spec.args),
        None => spec.command.iter().chain(&spec.args).cloned().collect(),
    })
}

fn egress(server: &MCPServer, references: &References, problems: &mut Vec<Problem>) -> Egress {
    let profile = server.spec.permission_profile.as_ref();
    permissions(profile, &references.permission_profile).map_or_else(
        |problem| {
            problems.push(problem);
            Egress::Closed
        },
        |permissions| permissions.egress,
    )
}

/// Joins variables with a value and variables from Secrets; a name may be given once.
fn env(server: &MCPServer, problems: &mut Vec<Problem>) -> Vec<EnvVar> {
    let spec = &server.spec;
    let from_secrets = spec.secrets.iter().map(|variable| {
        let name = variable.target_env_name.as_ref().unwrap_or(&variable.secret.key);
        pod::secret_variable(name, &variable.secret)
    });
    let env: Vec<_> = pod::variables(&spec.env).chain(from_secrets).collect();
    let mut names = BTreeSet::new();
    for variable in &env {
        if !names.insert(&variable.name) {
            let message = format!("the variable `{}` is given twice", variable.name);
            problems.push(Problem::new("spec.secrets", message, "keep one, or set another `targetEnvName`"));
        }
    }
    env
}
