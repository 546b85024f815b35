//! [`ReplicaReport`]: what one replica tells the others, as `GET /admin/replica` answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vmcp_access::authentication::revocations::Revocation;
use vmcp_search::learning::LearnedPair;
use vmcp_store::{StoredPair, ToolMetrics};

use crate::engine::tool_drift::trust::ApprovedTool;
use crate::telemetry::tool_metrics::ToolKey;

/// The counts of one replica, and what it knows of replicas that are gone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaReport {
    /// Id of the replica, as lasting as its database.
    pub(crate) replica: String,
    /// Metrics of tools that it counted itself.
    pub(crate) tools: Vec<ToolMetrics>,
    /// Metrics that replicas counted which are gone.
    pub(crate) departed: Vec<DepartedReplica>,
    /// Learned pairs.
    pub(crate) learned: Vec<SharedPair>,
    /// Changed definitions that an operator approved.
    pub(crate) approved: Vec<ApprovedTool>,
    /// Credentials that operators have withdrawn.
    pub(crate) revoked: Vec<Revocation>,
}

/// The last report of a replica that is gone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DepartedReplica {
    /// Id of the replica.
    pub(crate) replica: String,
    /// Time of its last report, in milliseconds.
    pub(crate) at: i64,
    /// Metrics of tools that it counted.
    pub(crate) tools: Vec<ToolMetrics>,
}

/// A query, by its vector, and a tool that was used for it. The query's text stays where it was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedPair {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) vector: Vec<f32>,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) confidence: f64,
    /// Time of the last use, in milliseconds.
    pub(crate) last_used: i64,
    /// True if the pair changes searches; a replica of an older version does not say.
    #[serde(default = "default_corrects")]
    pub(crate) corrects: bool,
}

const fn default_corrects() -> bool {
    true
}

impl From<&LearnedPair<ToolKey>> for SharedPair {
    fn from(pair: &LearnedPair<ToolKey>) -> SharedPair {
        let (server, tool) = &pair.tool;
        SharedPair {
            id: pair.id.clone(),
            model: pair.model.to_string(),
            vector: pair.vector.to_vec(),
            server: server.to_string(),
            tool: tool.to_string(),
            confidence: pair.confidence,
            last_used: pair.last_used,
            corrects: pair.corrects,
        }
    }
}

impl From<&SharedPair> for LearnedPair<ToolKey> {
    fn from(pair: &SharedPair) -> LearnedPair<ToolKey> {
        LearnedPair {
            id: pair.id.clone(),
            model: pair.model.as_str().into(),
            vector: pair.vector.as_slice().into(),
            tool: (pair.server.as_str().into(), pair.tool.as_str().into()),
            owner: StoredPair::owner_of(&pair.id).map(Arc::from),
            confidence: pair.confidence,
            last_used: pair.last_used,
            corrects: pair.corrects,
        }
    }
}
