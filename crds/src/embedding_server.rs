//! EmbeddingServer: HuggingFace Text Embeddings Inference, run by the operator.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::{QUANTITY_PATTERN, rules};
use crate::fields::references::SecretKeyReference;
use crate::fields::workload::{EnvironmentVariable, ImagePullPolicy, pod_template_schema};
use crate::fields::yaml_block::Block;

/// The model that is served unless another is named: the one of the RFC.
pub const DEFAULT_MODEL: &str = "BAAI/bge-small-en-v1.5";
/// The image unless another is named.
pub const DEFAULT_IMAGE: &str = "ghcr.io/huggingface/text-embeddings-inference:cpu-latest";

/// Text Embeddings Inference in pods of its own.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "EmbeddingServer",
    plural = "embeddingservers",
    namespaced,
    schema = "disabled",
    status = "EmbeddingServerStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "emb",
    shortname = "embedding",
    category = "mcp",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingServerSpec {
    /// The model, by its name at HuggingFace.
    #[schemars(length(min = 1, max = 256))]
    pub model: String,
    /// Image of Text Embeddings Inference.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// When the image is pulled.
    pub image_pull_policy: ImagePullPolicy,
    /// The port of the Service and of the container.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,
    /// How many pods.
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Arguments added to `--model-id` and `--port`, such as `--pooling mean`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = rules(&[(
                "self.all(argument, !argument.startsWith('--model-id') && !argument.startsWith('--port'))",
                "--model-id and --port are set already; write model and port in their place",
            )])
        )
    )]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvironmentVariable>,
    /// Token for models that HuggingFace gives only to known people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hf_token_secret_ref: Option<SecretKeyReference>,
    /// Keep the model in a volume. Without it, it is downloaded at every start of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_cache: Option<ModelCache>,
    /// What the container needs and may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Merged into the pod's template, strategically. The container's name is `embedding`.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "pod_template_schema")]
    pub pod_template_spec: Block,
}

impl Default for EmbeddingServerSpec {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            image: DEFAULT_IMAGE.to_owned(),
            image_pull_policy: ImagePullPolicy::IfNotPresent,
            port: 8080,
            replicas: 1,
            args: Vec::new(),
            env: Vec::new(),
            hf_token_secret_ref: None,
            model_cache: None,
            resources: None,
            pod_template_spec: Block::new(),
        }
    }
}

/// A volume for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelCache {
    /// `false`: no volume.
    pub enabled: bool,
    /// How large.
    #[schemars(extend("pattern" = QUANTITY_PATTERN))]
    pub size: Quantity,
    /// How it is mounted.
    pub access_mode: AccessMode,
    /// Its storage class. Default: the cluster's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
}

impl Default for ModelCache {
    fn default() -> Self {
        Self {
            enabled: true,
            size: Quantity("10Gi".to_owned()),
            access_mode: AccessMode::ReadWriteOnce,
            storage_class_name: None,
        }
    }
}

/// How a volume is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// By one node.
    ReadWriteOnce,
    /// By many nodes.
    ReadWriteMany,
    /// By many nodes, and the model is in it already.
    ReadOnlyMany,
}

impl AccessMode {
    /// As a claim says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadOnlyMany => "ReadOnlyMany",
        }
    }
}

/// How an EmbeddingServer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingServerStatus {
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<EmbeddingServerPhase>,
    /// Where it is reached inside of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is wrong and what to do, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are.
    pub replicas: i32,
    /// How many of them are ready.
    pub ready_replicas: i32,
    /// What is true of it.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far an EmbeddingServer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EmbeddingServerPhase {
    /// Its pods are not running yet.
    Pending,
    /// Its pods are running, and fetch or load the model.
    Downloading,
    /// At least one pod answers.
    Ready,
    /// It cannot run as it is written, or its pods fail.
    Failed,
}
