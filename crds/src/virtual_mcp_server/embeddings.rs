//! `spec.optimizer.embeddings`: the source of vectors for search by meaning.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use vmcp_config::OnUnavailable;
use vmcp_config::raw::{RawLocal, RawOpenAi, RawProvider, RawTei};

use crate::embedding_server::EmbeddingServerSpec;
use crate::fields::cel_rules::rules;
use crate::fields::headers::{HEADER_IN_BOTH, SensitiveHeader};
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::{self, Block};

/// Source of vectors for search by meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    ("!has(self.tei) || self.provider == 'tei'", "tei is given, and another provider is chosen; set provider: tei, or remove tei"),
    ("!has(self.openai) || self.provider == 'openai'", "openai is given, and another provider is chosen; set provider: openai, or remove openai"),
    ("!has(self.local) || self.provider == 'local'", "local is given, and another provider is chosen; set provider: local, or remove local"),
])))]
pub struct Embeddings {
    /// Provider that makes the vectors.
    pub provider: RawProvider,
    /// Behavior of a search while the provider fails.
    pub on_unavailable: OnUnavailable,
    /// Settings of `provider: tei`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tei: Option<Tei>,
    /// Settings of `provider: openai`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openai: Option<OpenAi>,
    /// Settings of `provider: local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RawLocal")]
    pub local: Option<Block>,
}

impl Default for Embeddings {
    fn default() -> Self {
        Self {
            provider: RawProvider::Local,
            on_unavailable: OnUnavailable::Degrade,
            tei: None,
            openai: None,
            local: None,
        }
    }
}

/// HuggingFace Text Embeddings Inference: an existing service (`endpoint`), a service that the operator makes
/// (`managed`), or the EmbeddingServer of `spec.embeddingServerRef`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "!(has(self.endpoint) && has(self.managed))",
        "endpoint and managed are both given; keep endpoint for a service that runs already, or managed to have one made",
    ),
    HEADER_IN_BOTH,
])))]
pub struct Tei {
    /// Makes the operator run an embedding service for this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<EmbeddingServerSpec>,
    /// Headers whose values are in Secrets. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub sensitive_headers: Vec<SensitiveHeader>,
    /// All other settings of `tei`: `endpoint`, `model`, `timeout`, `headers`.
    #[serde(flatten)]
    #[schemars(with = "RawTei")]
    pub settings: Block,
}

/// A service with OpenAI's `/v1/embeddings`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[HEADER_IN_BOTH])))]
pub struct OpenAi {
    /// Secret key with the API key, which is sent as a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<SecretKeyReference>,
    /// Headers whose values are in Secrets. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub sensitive_headers: Vec<SensitiveHeader>,
    /// All other settings of `openai`: `endpoint`, `model`, `dimensions`, `timeout`, `headers`.
    #[serde(flatten)]
    #[schemars(with = "OpenAiSettingsSchema")]
    pub settings: Block,
}

/// Schema of the settings of `openai` without `apiKey`, which a resource gives as a Secret.
struct OpenAiSettingsSchema;

impl JsonSchema for OpenAiSettingsSchema {
    fn schema_name() -> Cow<'static, str> {
        "OpenAiSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        yaml_block::schema_without::<RawOpenAi>(generator, &["apiKey"])
    }
}
