//! An EmbeddingServer that makes sense.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements};
use vmcp_crds::embedding_server::{AccessMode, ModelCache};
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::fields::workload::ImagePullPolicy;
use vmcp_crds::{Block, EmbeddingServer, Invalid, Problem};

use crate::references::Secrets;
use crate::workload::pod;

/// Longest name: names of a StatefulSet's pods have a label that holds `NAME-tei-` and ten digits.
const MAX_NAME: usize = 48;
/// Where HuggingFace's libraries look for the token.
const TOKEN: &str = "HF_TOKEN";

/// An EmbeddingServer that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Server {
    pub name: String,
    pub model: String,
    pub image: String,
    pub image_pull_policy: ImagePullPolicy,
    pub port: u16,
    pub replicas: i32,
    pub args: Vec<String>,
    pub env: Vec<EnvVar>,
    /// `None`: the model is downloaded at every start of a pod.
    pub cache: Option<ModelCache>,
    pub resources: Option<ResourceRequirements>,
    pub template: Block,
    /// Changes with the values of Secrets; `None` without any.
    pub secrets: Option<String>,
}

/// The Secrets that a server refers to.
pub(super) fn secret_references(server: &EmbeddingServer) -> Vec<SecretKeyReference> {
    server.spec.hf_token_secret_ref.iter().cloned().collect()
}

/// What the resource means, or everything that is wrong with it. All of `secrets` are there.
pub(super) fn validate(server: &EmbeddingServer, secrets: &Secrets) -> Result<Server, Invalid> {
    let spec = &server.spec;
    let name = server.metadata.name.clone().unwrap_or_default();
    let cache = spec.model_cache.clone().filter(|cache| cache.enabled);
    let mut problems = Vec::new();
    if name.len() > MAX_NAME
        || name.contains('.')
        || !name.starts_with(|first: char| first.is_ascii_lowercase())
    {
        let remedy = format!(
            "choose one of at most {MAX_NAME} characters that begins with a letter and has no dots, for `NAME-tei` \
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
    let references = secret_references(server);
    let token = references.iter().map(|token| pod::secret_variable(TOKEN, token));
    let server = Server {
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
        secrets: (!references.is_empty()).then(|| secrets.digest(&references)),
        name,
    };
    if problems.is_empty() { Ok(server) } else { Err(Invalid(problems)) }
}
