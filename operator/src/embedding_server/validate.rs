//! Step 2 of a reconcile, validate: checks name, arguments and volume, and returns a
//! [`ValidEmbeddingServer`]. Pure.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use vmcp_crds::embedding_server::{AccessMode, ModelCache};
use vmcp_crds::fields::resource_overrides::EmbeddingServerOverrides;
use vmcp_crds::fields::workload::ImagePullPolicy;
use vmcp_crds::{Block, EmbeddingServer, Invalid, Problem};

use super::dereference::secret_references;
use crate::references::ReferencedSecrets;
use crate::workload::pod;

/// The longest name in bytes: a label of a StatefulSet's pods holds `NAME-tei-` and a hash of ten characters,
/// 63 at most.
const MAX_NAME_LENGTH: usize = 48;
/// The variable in which HuggingFace's libraries look for the token.
const TOKEN_VARIABLE: &str = "HF_TOKEN";

/// A valid EmbeddingServer, the only input of [`build`](super::build).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValidEmbeddingServer {
    pub name: String,
    pub model: String,
    pub image: String,
    pub image_pull_policy: ImagePullPolicy,
    pub port: u16,
    pub replicas: i32,
    pub args: Vec<String>,
    pub env: Vec<EnvVar>,
    /// The volume for the model; `None` downloads it at every start of a pod.
    pub cache: Option<ModelCache>,
    pub resources: Option<ResourceRequirements>,
    pub template: Block,
    /// Labels and annotations of the objects that are made.
    pub overrides: EmbeddingServerOverrides,
    /// A digest of the values of Secrets; `None` without any.
    pub secrets: Option<String>,
}

/// Returns the valid server, or every problem of the resource. `secrets` holds all values that it refers to.
pub(super) fn validate(
    server: &EmbeddingServer,
    secrets: &ReferencedSecrets,
) -> Result<ValidEmbeddingServer, Invalid> {
    let spec = &server.spec;
    let name = server.metadata.name.clone().unwrap_or_default();
    let uid = server.metadata.uid.clone().unwrap_or_default();
    let cache = spec.model_cache.clone().filter(|cache| cache.enabled);
    let mut problems = Vec::new();
    if name.len() > MAX_NAME_LENGTH
        || name.contains('.')
        || !name.starts_with(|first: char| first.is_ascii_lowercase())
    {
        let remedy = format!(
            "choose one of at most {MAX_NAME_LENGTH} characters that begins with a letter and has no dots, for `NAME-tei` \
             names a Service"
        );
        problems.push(Problem::new("metadata.name", "not usable as a name", remedy));
    }
    for argument in &spec.args {
        let flag = argument.split('=').next().unwrap_or_default();
        let field = match flag {
            "--model-id" => "spec.model",
            "--port" | "-p" => "spec.port",
            _ => continue,
        };
        problems.push(Problem::new(
            "spec.args",
            format!("`{flag}` is set already"),
            format!("set `{field}` instead"),
        ));
    }
    if cache.as_ref().is_some_and(|cache| cache.access_mode == AccessMode::ReadWriteOnce) && spec.replicas > 1
    {
        let remedy = "set `accessMode: ReadWriteMany` with a storage class that can, or one replica, or no `modelCache`";
        problems.push(Problem::new(
            "spec.modelCache.accessMode",
            "one node's volume cannot serve pods on others",
            remedy,
        ));
    }
    spec.resource_overrides.check(&mut problems);
    let references = secret_references(server);
    let token = references.iter().map(|token| pod::secret_variable(TOKEN_VARIABLE, token));
    let server = ValidEmbeddingServer {
        model: spec.model.clone(),
        image: spec.image.clone(),
        image_pull_policy: spec.image_pull_policy,
        port: spec.port,
        replicas: spec.replicas,
        args: spec.args.clone(),
        env: token.chain(pod::variables(&spec.env)).collect(),
        cache,
        resources: spec.resources.clone(),
        template: spec.pod_template_spec.clone(),
        overrides: spec.resource_overrides.clone(),
        secrets: (!references.is_empty()).then(|| secrets.digest(&references, uid.as_bytes())),
        name,
    };
    if problems.is_empty() { Ok(server) } else { Err(Invalid(problems)) }
}
