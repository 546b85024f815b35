//! `spec.optimizer`: find_tool, call_tool and what `tools/list` shows.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use vmcp_config::raw::{RawOptimizer, StorageType};

use super::embeddings::Embeddings;
use crate::fields::cel_rules::QUANTITY_PATTERN;
use crate::fields::yaml_block::{self, Block};

/// find_tool and call_tool in place of hundreds of tool definitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Optimizer {
    /// `true`: `optim.find_tool` and `optim.call_tool` are offered. Off unless it is said.
    pub enabled: bool,
    /// Where vectors and hashes are kept: a cache for each pod, which ends with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Where vectors come from. Without it, from a small model inside of vmcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<Embeddings>,
    /// All its other settings.
    #[serde(flatten)]
    #[schemars(with = "Settings")]
    pub settings: Block,
}

struct Settings;

impl JsonSchema for Settings {
    fn schema_name() -> Cow<'static, str> {
        "OptimizerSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        yaml_block::schema_without::<RawOptimizer>(generator, &["enabled", "storage", "embeddings"])
    }
}

/// Where vectors and hashes are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Storage {
    /// Only `sqlite` so far.
    #[serde(rename = "type")]
    pub kind: StorageType,
    /// How large the pod's cache volume may grow.
    #[schemars(extend("pattern" = QUANTITY_PATTERN))]
    pub size_limit: Quantity,
}

impl Default for Storage {
    fn default() -> Self {
        Self { kind: StorageType::Sqlite, size_limit: Quantity("1Gi".to_owned()) }
    }
}
