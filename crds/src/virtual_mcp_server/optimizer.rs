//! `spec.optimizer`: find_tool, call_tool and what `tools/list` shows.

mod storage;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use vmcp_config::raw::{RawLlm, RawOptimizer};

pub use self::storage::{ClaimRetention, ClaimRetentionPolicy, Storage, StorageClaim, StorageVolume};
use super::embeddings::Embeddings;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::{self, Block};

/// Offers `optim_find_tool` and `optim_call_tool` in place of hundreds of tool definitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Optimizer {
    /// `true`: `optim_find_tool` and `optim_call_tool` are offered.
    pub enabled: bool,
    /// Cache of vectors and hashes, and counts of calls. Each pod has its own, which ends with the pod unless
    /// `volume` keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Source of vectors for search by meaning. Default: a small model inside vmcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Embeddings>,
    /// Language model that ranks tools for `recommend_tools` and `search_tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<Llm>,
    /// All other settings of the optimizer.
    #[serde(flatten)]
    #[schemars(with = "OptimizerSettingsSchema")]
    pub settings: Block,
}

/// Schema of the settings that have no field of their own here. `admin.registry` has no use in a cluster,
/// where no server of a registry is installed.
struct OptimizerSettingsSchema;

impl JsonSchema for OptimizerSettingsSchema {
    fn schema_name() -> Cow<'static, str> {
        "OptimizerSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = yaml_block::schema_without::<RawOptimizer>(
            generator,
            &["enabled", "storage", "embeddings", "llm"],
        );
        yaml_block::remove_nested(&mut schema, "admin", "registry");
        // A webhook may have a secret, and a resource holds secrets by reference only.
        yaml_block::remove_nested(&mut schema, "sessionHooks", "webhooks");
        schema
    }
}

/// A language model with OpenAI's `/v1/chat/completions`: ranks tools for `recommend_tools` and
/// `search_tools`. Without it, and while it fails, the search ranks alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Llm {
    /// Secret key with the API key, which is sent as a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_secret_ref: Option<SecretKeyReference>,
    /// All other settings of `llm`: `endpoint`, `model`, `timeout`, `maxTurns`.
    #[serde(flatten)]
    #[schemars(with = "LlmSettingsSchema")]
    pub settings: Block,
}

/// Schema of the settings of `llm` without `apiKey`, which a resource gives as a Secret.
struct LlmSettingsSchema;

impl JsonSchema for LlmSettingsSchema {
    fn schema_name() -> Cow<'static, str> {
        "LlmSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        yaml_block::schema_without::<RawLlm>(generator, &["apiKey"])
    }
}
