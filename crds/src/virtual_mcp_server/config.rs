//! `spec.config`: the blocks of `vmcp.yaml` besides backends and optimizer.

pub(super) mod code_mode;
pub(super) mod failure_handling;

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vmcp_config::raw::{RawAggregation, RawAudit, RawCode, RawProfile, RawProxy, RawRateLimiting, RawServer};

use self::code_mode::CodeMode;
use self::failure_handling::OperationalSchema;
use crate::fields::composite_tool::CompositeToolSchema;
use crate::fields::references::LocalReference;
use crate::fields::yaml_block::{self, Block};

/// Names and visibility of tools, connections to backends, failure handling, client connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Config {
    /// Name of the MCPGroup; another way to write `spec.groupRef.name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub group_ref: Option<String>,
    /// Rules by which the tools of many backends become one list.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "AggregationSchema")]
    pub aggregation: Block,
    /// Log level, timeouts by backend, and what happens when backends fail.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "OperationalSchema")]
    pub operational: Block,
    /// Connections to backends: timeouts, retries, refresh.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawProxy")]
    pub proxy: Block,
    /// Parts of the catalog under paths of their own, `/mcp/NAME`; for order, and no protection.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, RawProfile>")]
    pub profiles: Block,
    /// Audit events: a line on standard output for each call and each client that is turned away.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawAudit")]
    pub audit: Block,
    /// Limits on calls of tools, by token buckets; each pod has its own, unless `spec.sessionStorage` has
    /// them.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawRateLimiting")]
    pub rate_limiting: Block,
    /// Engine and limits of scripts, which run while `execute_code` or `execute_tool_script` is among
    /// `spec.optimizer.tools`, or with `codeMode`.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawCode")]
    pub code: Block,
    /// Code mode as ToolHive writes it: scripts in Starlark, by the tool `execute_tool_script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_mode: Option<CodeMode>,
    /// Composite tools: their steps call tools of backends, ask the user, and loop over lists. At most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        with = "Vec<CompositeToolSchema>",
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub composite_tools: Vec<Block>,
    /// VirtualMCPCompositeToolDefinitions whose tools are served beside `compositeTools`. A missing or an
    /// invalid one is left out, and the condition `CompositeToolRefsValidated` names it. At most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub composite_tool_refs: Vec<LocalReference>,
    /// Names of headers of a client's request that every backend gets unchanged, as in
    /// `spec.passthroughHeaders`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub passthrough_headers: Vec<String>,
    /// Connections of clients: allowed hosts and origins, limits, draining.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "ServerSettingsSchema")]
    pub server: Block,
    /// Optimizer, as ToolHive writes it; its presence turns the optimizer on. `spec.optimizer` can say all of
    /// it; only one of the two may be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<FlatOptimizer>,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

/// Default of `shutdownDelay`. After SIGTERM, new connections still arrive until all nodes have removed the
/// pod from the endpoints of the Service.
pub(crate) const DEFAULT_SHUTDOWN_DELAY: &str = "5s";

/// Schema of `aggregation`, with the reference to an MCPToolConfig in each entry of `tools`.
struct AggregationSchema;

impl JsonSchema for AggregationSchema {
    fn schema_name() -> Cow<'static, str> {
        "AggregationSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = RawAggregation::json_schema(generator);
        let mut reference = LocalReference::json_schema(generator);
        reference.insert(
            "description".to_owned(),
            "MCPToolConfig with a filter and overrides, before the one that the backend names. `filter` and `overrides` \
             of this entry go before it, tool by tool."
                .into(),
        );
        if let Some(Value::Object(properties)) = schema.pointer_mut("/properties/tools/items/properties") {
            properties.insert("toolConfigRef".to_owned(), reference.into());
        }
        schema
    }
}

/// Schema of the part of `server` that a resource may set; the operator decides the rest.
struct ServerSettingsSchema;

impl JsonSchema for ServerSettingsSchema {
    fn schema_name() -> Cow<'static, str> {
        "ServerSettings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let keys = [
            "allowedHosts",
            "allowedOrigins",
            "maxConnections",
            "maxBufferedBytes",
            "maxConnectionsPerClient",
            "maxRequestsPerClient",
            "maxBufferedBytesPerClient",
            "receiveTimeout",
            "writeTimeout",
            "drainTimeout",
            "shutdownDelay",
            "trustedProxies",
            "registry",
        ];
        let mut schema = yaml_block::schema_only::<RawServer>(generator, &keys);
        if let Some(delay) = schema.pointer_mut("/properties/shutdownDelay/default") {
            *delay = DEFAULT_SHUTDOWN_DELAY.into();
        }
        schema
    }
}

/// Optimizer settings in ToolHive's flat form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlatOptimizer {
    /// Base URL of the embedding service. Without it and without `embeddingServerRef`, a small model inside
    /// vmcp makes the vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub embedding_service: Option<String>,
    /// API of the embedding service.
    pub embedding_provider: FlatEmbeddingProvider,
    /// Model that the service serves, or that it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub embedding_model: Option<String>,
    /// Timeout of a request to the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDuration", extend("x-range" = "1ms to 24h"))]
    pub embedding_service_timeout: Option<String>,
    /// Headers sent to the service. At most 32.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub embedding_headers: BTreeMap<String, String>,
    /// Number of tools that a search returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub max_tools_to_return: Option<u32>,
    /// Weight of search by meaning against search by words, from "0" (words only) to "1" (meaning only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDecimal", extend("x-range" = "0 to 1"))]
    pub hybrid_search_semantic_ratio: Option<String>,
    /// Maximum cosine distance, from "0" to "2", at which a tool counts as found by meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "vmcp_config::raw::RawDecimal", extend("x-range" = "0 to 2"))]
    pub semantic_distance_threshold: Option<String>,
}

/// API of an embedding service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlatEmbeddingProvider {
    /// HuggingFace Text Embeddings Inference.
    #[default]
    Tei,
    /// OpenAI's `/v1/embeddings`, which many services offer.
    OpenAi,
}
