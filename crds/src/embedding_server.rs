//! EmbeddingServer: HuggingFace Text Embeddings Inference (TEI), run by the operator.

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::{QUANTITY_PATTERN, rules};
use crate::fields::references::SecretKeyReference;
use crate::fields::resource_overrides::{EmbeddingServerOverrides, is_default};
use crate::fields::workload::{EnvironmentVariable, ImagePullPolicy, pod_template_schema};
use crate::fields::yaml_block::Block;

/// Default of `model`: small (33 million parameters), English, and quick on a CPU.
pub const DEFAULT_MODEL: &str = "BAAI/bge-small-en-v1.5";
/// Default of `image`: TEI for CPUs.
pub const DEFAULT_IMAGE: &str = "ghcr.io/huggingface/text-embeddings-inference:cpu-latest";

/// Runs HuggingFace Text Embeddings Inference (TEI), which turns tool descriptions into vectors for search by
/// meaning. VirtualMCPServers use it by `embeddingServerRef`.
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
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingServerSpec {
    /// Model by its name at HuggingFace, such as `BAAI/bge-small-en-v1.5`.
    #[schemars(length(min = 1, max = 256))]
    pub model: String,
    /// Image of Text Embeddings Inference. Use a `cuda` or architecture tag for GPUs.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// When the image is pulled.
    pub image_pull_policy: ImagePullPolicy,
    /// Secrets with credentials for the registry of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Port of the Service and of the container.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u16,
    /// Number of pods.
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Arguments after `--model-id` and `--port`, such as `--pooling mean`. At most 64.
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
    /// Environment variables of the container. At most 256.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvironmentVariable>,
    /// Token for gated models, passed to the container as `HF_TOKEN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hf_token_secret_ref: Option<SecretKeyReference>,
    /// Keeps the model in a volume. Without it, each pod downloads the model at every start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_cache: Option<ModelCache>,
    /// CPU and memory that the container requests and is limited to. Default: requests of 250m and 512Mi, a
    /// limit of 8Gi; models of more than two billion parameters need more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Merged into the pod template, strategically, as `kubectl patch` does. The container is named
    /// `embedding`.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "pod_template_schema")]
    pub pod_template_spec: Block,
    /// Labels and annotations of the objects that are made.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_overrides: EmbeddingServerOverrides,
}

impl Default for EmbeddingServerSpec {
    fn default() -> Self {
        Self {
            model: DEFAULT_MODEL.to_owned(),
            image: DEFAULT_IMAGE.to_owned(),
            image_pull_policy: ImagePullPolicy::IfNotPresent,
            image_pull_secrets: Vec::new(),
            port: 8080,
            replicas: 1,
            args: Vec::new(),
            env: Vec::new(),
            hf_token_secret_ref: None,
            model_cache: None,
            resources: None,
            pod_template_spec: Block::new(),
            resource_overrides: EmbeddingServerOverrides::default(),
        }
    }
}

/// A PersistentVolumeClaim for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelCache {
    /// `false`: no volume is made.
    pub enabled: bool,
    /// Size of the volume.
    #[schemars(extend("pattern" = QUANTITY_PATTERN))]
    pub size: Quantity,
    /// Access mode of the volume. More than one replica needs `ReadWriteMany` or `ReadOnlyMany`.
    pub access_mode: AccessMode,
    /// Storage class of the claim. Default: the default class of the cluster.
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

/// Access mode of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// One node reads and writes.
    ReadWriteOnce,
    /// Many nodes read and write.
    ReadWriteMany,
    /// Many nodes read; the model must be in the volume already.
    ReadOnlyMany,
}

impl AccessMode {
    /// Returns the value of `accessModes` in a claim.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadOnlyMany => "ReadOnlyMany",
        }
    }
}

/// Observed state of an EmbeddingServer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingServerStatus {
    /// Progress in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<EmbeddingServerPhase>,
    /// URL of the Service inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// One sentence: what is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods.
    pub replicas: i32,
    /// Number of ready pods.
    pub ready_replicas: i32,
    /// Label selector of the pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Conditions of the server; `Ready` sums them up.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Progress of an EmbeddingServer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EmbeddingServerPhase {
    /// Pods are not running yet.
    Pending,
    /// Pods are running, and download or load the model.
    Downloading,
    /// At least one pod answers.
    Ready,
    /// Pods of an earlier version serve, and the newest spec cannot run as written; `message` says why.
    Degraded,
    /// The spec cannot run as written and nothing serves, or the pods fail; `message` says why.
    Failed,
}
