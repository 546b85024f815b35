//! Step 2 of a reconcile, validate: checks volumes, and the rights that the configuration takes. Pure.

use k8s_openapi::api::core::v1::{LocalObjectReference, Volume, VolumeMount};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::{Block, Invalid, MCPRegistry, Problem};

use crate::references::ReferencedSecrets;

/// Names of the operator's own volumes.
const OWN_VOLUMES: [&str; 3] = ["registry-server-config", "pgpass-secret", "pgpass"];

/// A valid MCPRegistry, the only input of [`build`](super::build).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValidMCPRegistry {
    pub name: String,
    /// The configuration file.
    pub config: String,
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// The Secret with the passwords of the database.
    pub pgpass: Option<SecretKeyReference>,
    /// The existing ServiceAccount that the template names.
    pub service_account: Option<String>,
    pub template: Block,
    pub volumes: Vec<Volume>,
    pub mounts: Vec<VolumeMount>,
    /// A digest of the values of Secrets; `None` without any.
    pub secrets: Option<String>,
    /// The key of that digest.
    pub digest_key: Option<Vec<u8>>,
}

/// Returns the valid registry, or every problem of the resource. `secrets` holds all values that it refers
/// to, `digest_key` the key of their digest, `running_digest` the one of the pod that runs.
pub(super) fn validate(
    registry: &MCPRegistry,
    secrets: &ReferencedSecrets,
    digest_key: Option<Vec<u8>>,
    running_digest: Option<String>,
) -> Result<ValidMCPRegistry, Invalid> {
    let spec = &registry.spec;
    let mut problems = Vec::new();
    let account = spec.pod_template_spec.get("spec").and_then(|pod| pod.get("serviceAccountName"));
    let service_account = account.and_then(Value::as_str).map(str::to_owned);
    if service_account.is_none() && spec.asks_api_server() {
        problems.push(Problem::new(
            "spec.configYAML",
            "a source `kubernetes` asks the API server, and the operator lends no rights",
            "name a ServiceAccount that may list the resources in `spec.podTemplateSpec.spec.serviceAccountName`",
        ));
    }
    let volumes: Vec<Volume> = typed("spec.volumes", &spec.volumes, &mut problems);
    for (index, volume) in volumes.iter().enumerate() {
        if OWN_VOLUMES.contains(&volume.name.as_str()) {
            let message = format!("`{}` is a volume of the operator's", volume.name);
            problems.push(Problem::new(
                format!("spec.volumes[{index}].name"),
                message,
                "choose another name",
            ));
        }
    }
    let mounts = typed("spec.volumeMounts", &spec.volume_mounts, &mut problems);
    let references: Vec<_> = spec.pgpass_secret_ref.iter().cloned().collect();
    let registry = ValidMCPRegistry {
        name: registry.metadata.name.clone().unwrap_or_default(),
        config: spec.config_yaml.clone(),
        image_pull_secrets: spec.image_pull_secrets.clone(),
        pgpass: spec.pgpass_secret_ref.clone(),
        service_account,
        template: spec.pod_template_spec.clone(),
        volumes,
        mounts,
        secrets: digest_key.as_ref().map(|key| secrets.digest_of_pods(&references, key, running_digest)),
        digest_key,
    };
    if problems.is_empty() { Ok(registry) } else { Err(Invalid(problems)) }
}

/// Reads objects as Kubernetes has them. An unknown key is a problem: `configmap` in place of `configMap`
/// would make an empty folder.
fn typed<T: DeserializeOwned + Serialize>(
    path: &str,
    blocks: &[Block],
    problems: &mut Vec<Problem>,
) -> Vec<T> {
    let remedy = "write it as in the `spec` of a pod: see `kubectl explain pod.spec`";
    let mut read = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.iter().enumerate() {
        let written = Value::from(block.clone());
        let parsed = serde_json::from_value::<T>(written.clone())
            .and_then(|object| Ok((serde_json::to_value(&object)?, object)));
        match parsed {
            Ok((kept, object)) => {
                if let Some(key) = dropped_key(&written, &kept) {
                    let message = "the operator does not know this key, and would drop it";
                    problems.push(Problem::new(format!("{path}[{index}]{key}"), message, remedy));
                }
                read.push(object);
            }
            Err(error) => {
                problems.push(Problem::new(format!("{path}[{index}]"), error.to_string(), remedy));
            }
        }
    }
    read
}

/// Returns the path of the first key of `written` that `kept` lacks, with a dot or an index in front. Keys
/// without a value stand for absent ones.
fn dropped_key(written: &Value, kept: &Value) -> Option<String> {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            let mut given = written.iter().filter(|(_, value)| !value.is_null());
            given.find_map(|(key, value)| {
                let rest = kept.get(key).map_or(Some(String::new()), |kept| dropped_key(value, kept))?;
                Some(format!(".{key}{rest}"))
            })
        }
        (Value::Array(written), Value::Array(kept)) => {
            let mut pairs = written.iter().zip(kept).enumerate();
            pairs.find_map(|(index, (value, kept))| Some(format!("[{index}]{}", dropped_key(value, kept)?)))
        }
        _ => None,
    }
}
