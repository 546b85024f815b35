//! `spec.optimizer`: find_tool, call_tool and what `tools/list` shows.

mod storage;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vmcp_config::Admin;
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

impl Optimizer {
    /// Returns the rules about servers that clients may add, as the pods read them; no rules where they are
    /// invalid.
    pub fn added_servers(&self) -> Admin {
        self.rules_of_added_servers().unwrap_or_default()
    }

    /// Returns the rules about servers that clients may add, as the pods read them; `None` where they are
    /// invalid.
    pub fn rules_of_added_servers(&self) -> Option<Admin> {
        let Some(admin) = self.settings.get("admin") else { return Some(Admin::default()) };
        let file = json!({ "optimizer": { "admin": yaml_block::escape(admin.clone()) } }).to_string();
        let loaded = vmcp_config::load(&file, "vmcp.yaml", &|_| None);
        loaded.map(|loaded| loaded.config.optimizer.admin).ok()
    }
}

/// Schema of the settings that have no field of their own here.
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
