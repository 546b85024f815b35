//! `optimizer.rerank`: the cross-encoder that re-ranks the first hits of a search.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::Report;
use crate::sections::proxy::TIMEOUT;
use crate::values::duration::{self, RawDuration};
use crate::values::headers::{self, Headers};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Validated settings of the re-ranking service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rerank {
    /// Base URL, to which `/rerank` is added.
    pub endpoint: Url,
    /// Time that a search waits for it.
    pub timeout: Duration,
    /// Most hits that the service orders.
    pub candidates: usize,
    /// HTTP headers of every request.
    pub headers: Headers,
}

/// A cross-encoder, served by HuggingFace Text Embeddings Inference, that orders the first hits of a search
/// anew. It gets the query, and names and first sentences of tools. While it fails, searches keep their own
/// order and say so.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Rerank")]
pub struct RawRerank {
    /// Required. Base URL of the service, such as `http://reranker:8080`.
    pub endpoint: String,
    /// Time that a search waits for it; beyond it, the search keeps its own order.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Most hits that the service orders; a slow service gets fewer.
    #[schemars(range(min = 2, max = 100))]
    pub candidates: usize,
    /// HTTP headers of every request, such as `Authorization`.
    pub headers: BTreeMap<String, Secret>,
}

impl Default for RawRerank {
    fn default() -> Self {
        Self { endpoint: String::new(), timeout: "2s".into(), candidates: 30, headers: BTreeMap::new() }
    }
}

impl RawRerank {
    pub(crate) fn validate(&self, report: &mut Report) -> Option<Rerank> {
        let path = "optimizer.rerank";
        let at = format!("{path}.endpoint");
        let timeout = self.timeout.validate(&format!("{path}.timeout"), &TIMEOUT, report);
        let headers = headers::validate(&self.headers, &format!("{path}.headers"), report);
        if self.endpoint.is_empty() {
            let remedy = "add the base URL of the service, such as `http://localhost:8080`";
            report.problem(&at, "missing", remedy);
            return None;
        }
        let endpoint = http_url::validate(&self.endpoint, &at, report)?;
        Some(Rerank { endpoint, timeout, candidates: self.candidates, headers })
    }
}
