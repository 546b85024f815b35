//! `spec.config`: what `vmcp.yaml` says besides backends and optimizer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use vmcp_config::raw::{RawAggregation, RawOperational, RawProxy, RawServer};

use crate::fields::yaml_block::{self, Block};

/// Names and visibility of tools, connections to backends, failure handling, client connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Config {
    /// Name of the MCPGroup: another way to write `spec.groupRef.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub group_ref: Option<String>,
    /// How the tools of many backends become one list.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawAggregation")]
    pub aggregation: Block,
    /// Logging, time-outs by backend, what happens when backends fail.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawOperational")]
    pub operational: Block,
    /// Connections to backends.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawProxy")]
    pub proxy: Block,
    /// Connections of clients.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "ServerSettings")]
    pub server: Block,
    /// The optimizer, as ToolHive writes it: its presence turns the optimizer on. `spec.optimizer` says the same and more;
    /// only one of them may be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<FlatOptimizer>,
}

/// How long a pod takes connections after SIGTERM unless it is said: until the endpoints of the Service are up to date
/// everywhere, new ones still come.
pub(crate) const DEFAULT_SHUTDOWN_DELAY: &str = "5s";

/// The part of `server` that is left to people; the operator decides the rest.
struct ServerSettings;

impl JsonSchema for ServerSettings {
    fn schema_name() -> Cow<'static, str> {
        "ServerSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let keys = [
            "allowedHosts",
            "allowedOrigins",
            "maxConnections",
            "receiveTimeout",
            "writeTimeout",
            "drainTimeout",
            "shutdownDelay",
        ];
        let mut schema = yaml_block::schema_only::<RawServer>(generator, &keys);
        if let Some(delay) = schema.pointer_mut("/properties/shutdownDelay/default") {
            *delay = DEFAULT_SHUTDOWN_DELAY.into();
        }
        schema
    }
}

/// The optimizer, as ToolHive writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlatOptimizer {
    /// Base URL of the service that makes the vectors. Without it and without `embeddingServerRef`, they are made by a
    /// small model inside of vmcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub embedding_service: Option<String>,
    /// How that service speaks.
    pub embedding_provider: FlatEmbeddingProvider,
    /// The model that it serves, or that it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub embedding_model: Option<String>,
    /// Longest request to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDuration", extend("x-range" = "1ms to 24h"))]
    pub embedding_service_timeout: Option<String>,
    /// Headers sent to it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub embedding_headers: BTreeMap<String, String>,
    /// How many tools a search returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub max_tools_to_return: Option<u32>,
    /// Weight of meaning against words, "0" (words only) to "1" (meaning only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDecimal", extend("x-range" = "0 to 1"))]
    pub hybrid_search_semantic_ratio: Option<String>,
    /// Tools farther than this cosine distance, "0" to "2", count as not found by meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDecimal", extend("x-range" = "0 to 2"))]
    pub semantic_distance_threshold: Option<String>,
}

/// How a service that makes vectors speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlatEmbeddingProvider {
    /// Text Embeddings Inference.
    #[default]
    Tei,
    /// OpenAI's `/v1/embeddings`.
    OpenAi,
}
