//! An MCPServer that makes sense.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::fields::workload::{ImagePullPolicy, SessionAffinity};
use vmcp_crds::mcp_server::MCPServerTransport;
use vmcp_crds::{Block, Invalid, MCPServer, Problem};

use crate::references::Secrets;
use crate::workload::pod;

/// Longest name: `mcp-NAME` is the name of a Service, which has at most 63 characters.
const MAX_NAME: usize = 59;

/// An MCPServer that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Server {
    pub name: String,
    pub start: Start,
    pub image: String,
    pub image_pull_policy: Option<ImagePullPolicy>,
    pub image_pull_secrets: Vec<LocalObjectReference>,
    pub env: Vec<EnvVar>,
    pub resources: Option<ResourceRequirements>,
    /// The port of the Service.
    pub port: u16,
    pub session_affinity: SessionAffinity,
    /// `None`: one at first, then whatever others say.
    pub replicas: Option<i32>,
    pub service_account: Option<String>,
    pub template: Block,
    /// Changes with the values of Secrets; `None` without any.
    pub secrets: Option<String>,
}

/// How the program is started and where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    /// By the bridge: program and arguments.
    Bridged(Vec<String>),
    /// By the image, or by what replaces its entrypoint and arguments.
    Itself { command: Vec<String>, args: Vec<String>, port: u16 },
}

/// The Secrets that a server refers to.
pub(super) fn secret_references(server: &MCPServer) -> Vec<SecretKeyReference> {
    server.spec.secrets.iter().map(|variable| variable.secret.clone()).collect()
}

/// What the resource means, or everything that is wrong with it. All of `secrets` are there.
pub(super) fn validate(server: &MCPServer, secrets: &Secrets) -> Result<Server, Invalid> {
    let spec = &server.spec;
    let name = server.metadata.name.clone().unwrap_or_default();
    let mut problems = Vec::new();
    if name.len() > MAX_NAME || name.contains('.') {
        let remedy = format!(
            "choose one of at most {MAX_NAME} characters without dots, for `mcp-NAME` names a Service"
        );
        problems.push(Problem::new("metadata.name", "not usable as a name", remedy));
    }
    let references = secret_references(server);
    let server = Server {
        start: start(server, &mut problems),
        image: spec.image.clone(),
        image_pull_policy: spec.image_pull_policy,
        image_pull_secrets: spec.image_pull_secrets.clone(),
        env: env(server, &mut problems),
        resources: spec.resources.clone(),
        port: spec.proxy_port,
        session_affinity: spec.session_affinity,
        replicas: spec.replicas,
        service_account: spec.service_account.clone(),
        template: spec.pod_template_spec.clone(),
        secrets: (!references.is_empty()).then(|| secrets.digest(&references)),
        name,
    };
    if problems.is_empty() { Ok(server) } else { Err(Invalid(problems)) }
}

fn start(server: &MCPServer, problems: &mut Vec<Problem>) -> Start {
    let spec = &server.spec;
    if spec.transport != MCPServerTransport::Stdio {
        return Start::Itself {
            command: spec.command.clone(),
            args: spec.args.clone(),
            port: spec.mcp_port.unwrap_or(spec.proxy_port),
        };
    }
    if spec.command.is_empty() {
        let remedy = "write the program that speaks stdio and its arguments, such as `[npx, -y, \
                      \"@modelcontextprotocol/server-time\"]`; the bridge cannot know what the image would start";
        problems.push(Problem::new("spec.command", "missing with `transport: stdio`", remedy));
    }
    for (path, is_given) in [("spec.mcpPort", spec.mcp_port.is_some()), ("spec.path", spec.path.is_some())] {
        if is_given {
            let remedy = "remove it, or set `transport: streamable-http`";
            problems.push(Problem::new(path, "means nothing with `transport: stdio`", remedy));
        }
    }
    Start::Bridged(spec.command.iter().chain(&spec.args).cloned().collect())
}

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
