//! [`ToolRank`]: the place of a tool among the hits of a query.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vmcp_model::catalog::CatalogTool;

use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::engine::{Engine, Snapshot, View};
use vmcp_engine::search::{SearchRequest, search};

/// Most hits that are looked at: a tool behind them is as good as not found.
const MAX_HITS: usize = 1000;
/// Hits that are named.
const NAMED_HITS: usize = 3;

/// Place of a tool among the hits of a query.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRank {
    /// The query.
    pub query: String,
    /// Place, from 1; absent: not among the first 1000 hits.
    pub rank: Option<usize>,
    /// Tools that were searched.
    pub searched: usize,
    /// Hits that find_tool returns unless a client asks for another number.
    pub returned: usize,
    /// Score and its parts, as `find_tool` explains them.
    pub explanation: Option<Value>,
    /// Reason, if the search had to do without vectors or re-ranking.
    pub degraded: Option<String>,
    /// The first hits.
    pub first: Vec<String>,
}

/// Searches as the client would, and looks for the tool.
pub(super) async fn place(
    engine: &Engine,
    snapshot: &Snapshot,
    view: &View,
    principal: PrincipalKey,
    tool: &CatalogTool,
    query: &str,
) -> ToolRank {
    let searcher = engine.searcher(snapshot, principal);
    let request = SearchRequest {
        description: query,
        keywords: "",
        limit: Some(view.visible_tools.clamp(1, MAX_HITS)),
        visible: Some(view.visible()),
        explain: true,
    };
    let found = search(&searcher, request).await;
    let hits = &found.ranking.hits;
    let document = snapshot.unfiltered().position(&tool.name);
    let at = hits.iter().position(|hit| Some(hit.document) == document);
    let explanation = at.and_then(|at| hits.get(at)?.explanation.as_ref());
    let names = hits.iter().filter_map(|hit| Some(view.document(hit.document)?.name.clone()));
    ToolRank {
        query: query.to_owned(),
        rank: at.map(|at| at + 1),
        searched: found.ranking.visible,
        returned: snapshot.config.optimizer.search.max_tools,
        // Numbers always serialize.
        explanation: explanation.and_then(|explanation| serde_json::to_value(explanation).ok()),
        degraded: found.degraded.as_ref().map(ToString::to_string),
        first: names.take(NAMED_HITS).collect(),
    }
}
