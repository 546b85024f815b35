//! Step 2 of a reconcile, validate: checks name, arguments and volume, and returns a
//! [`ValidEmbeddingServer`]. Pure.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference, ResourceRequirements};
use vmcp_crds::embedding_server::{AccessMode, ModelCache};
use vmcp_crds::fields::resource_overrides::EmbeddingServerOverrides;
use vmcp_crds::fields::workload::ImagePullPolicy;
use vmcp_crds::{Block, EmbeddingServer, Invalid, Problem};

use super::dereference::{References, secret_references};
use super::names::child_name;
use crate::workload::claim_templates::{ClaimTemplate, UNCHANGEABLE};
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
    pub image_pull_secrets: Vec<LocalObjectReference>,
    pub port: u16,
    pub replicas: i32,
    pub args: Vec<String>,
    pub env: Vec<EnvVar>,
    /// The volume for the model; `None` downloads it at every start of a pod.
    pub cache: Option<ModelCache>,
    /// True if each pod has a volume of its own, by the StatefulSet.
    pub has_claim_per_pod: bool,
    pub resources: Option<ResourceRequirements>,
    pub template: Block,
    /// Labels and annotations of the objects that are made.
    pub overrides: EmbeddingServerOverrides,
    /// A digest of the values of Secrets; `None` without any.
    pub secrets: Option<String>,
    /// The key of that digest.
    pub digest_key: Option<Vec<u8>>,
}

/// Returns the valid server, or every problem of the resource. `found` holds all values that it refers to;
/// `running` is the StatefulSet so far.
pub(super) fn validate(
    server: &EmbeddingServer,
    found: &References,
    running: Option<&StatefulSet>,
) -> Result<ValidEmbeddingServer, Invalid> {
    let spec = &server.spec;
    let name = server.metadata.name.clone().unwrap_or_default();
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
    let has_claim_per_pod = has_claim_per_pod(server, cache.as_ref(), running, &mut problems);
    spec.resource_overrides.check(&mut problems);
    let references = secret_references(server);
    let token = references.iter().map(|token| pod::secret_variable(TOKEN_VARIABLE, token));
    let server = ValidEmbeddingServer {
        model: spec.model.clone(),
        image: spec.image.clone(),
        image_pull_policy: spec.image_pull_policy,
        image_pull_secrets: spec.image_pull_secrets.clone(),
        port: spec.port,
        replicas: spec.replicas,
        args: spec.args.clone(),
        env: token.chain(pod::variables(&spec.env)).collect(),
        cache,
        has_claim_per_pod,
        resources: spec.resources.clone(),
        template: spec.pod_template_spec.clone(),
        overrides: spec.resource_overrides.clone(),
        secrets: found.digest_key.as_ref().map(|key| {
            let template = running.and_then(|set| Some(&set.spec.as_ref()?.template));
            found.secrets.digest_of_pods(&references, key, template.and_then(pod::secrets_digest))
        }),
        digest_key: found.digest_key.clone(),
        name,
    };
    if problems.is_empty() { Ok(server) } else { Err(Invalid(problems)) }
}

/// Returns true if each pod gets a volume of its own: several pods cannot share one node's volume. A
/// StatefulSet cannot change its claims, so that one that has them keeps them.
fn has_claim_per_pod(
    server: &EmbeddingServer,
    cache: Option<&ModelCache>,
    running: Option<&StatefulSet>,
    problems: &mut Vec<Problem>,
) -> bool {
    let set = child_name(server.metadata.name.as_deref().unwrap_or_default());
    let template = running.and_then(|set| set.spec.as_ref()?.volume_claim_templates.as_ref()?.first());
    if let Some(template) = template
        && cache.is_none_or(|cache| !claim_template(cache).made(template))
    {
        let remedy = format!(
            "delete the StatefulSet (`kubectl delete statefulset {set}`), and the operator makes one for these settings; \
             or restore those before"
        );
        problems.push(Problem::new("spec.modelCache", UNCHANGEABLE, remedy));
    }
    if cache.is_none_or(|cache| cache.access_mode != AccessMode::ReadWriteOnce) {
        return false;
    }
    let needs = server.spec.replicas > 1;
    let claims = running.map(|_| template.is_some());
    if claims == Some(false) && needs {
        let remedy = format!(
            "delete the StatefulSet (`kubectl delete statefulset {set}`), and the operator makes one with a volume for each \
             pod; or set `accessMode: ReadWriteMany` with a storage class that can"
        );
        let message = "the StatefulSet was made for one volume, which cannot serve pods on other nodes";
        problems.push(Problem::new("spec.replicas", message, remedy));
    }
    claims.unwrap_or(needs)
}

/// Returns the claims, one for each pod or one for all.
pub(super) fn claim_template(cache: &ModelCache) -> ClaimTemplate<'_> {
    ClaimTemplate {
        access_mode: cache.access_mode,
        size: &cache.size,
        storage_class_name: cache.storage_class_name.as_deref(),
    }
}
