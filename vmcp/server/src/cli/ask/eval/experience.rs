//! [`Experience`]: knowledge from a log, of the tools that were used for queries, or of the tools that fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmcp_search::Reliability;
use vmcp_search::learning::{LearnedPair, LearningMode, Signal, confidence_after};
use vmcp_store::StoredPair;

use super::corpus::Corpus;
use super::files::{NeededTool, Query};
use crate::cli::console::failure::CommandFailure;
use vmcp_engine::search::context::Learned;
use vmcp_engine::search::{LearnedTools, SearchRequest, Searcher, embed_query, search, whole_query};

/// Knowledge that grows with each query of a log.
pub(super) enum Experience {
    /// Tools that were used, by query.
    Learned {
        pairs: Learned,
        mode: LearningMode,
        /// Similarity of two queries below which one teaches nothing about the other.
        min_similarity: f32,
    },
    /// Calls of each tool, and successful calls.
    Reliability(BTreeMap<NeededTool, (u64, u64)>),
}

impl Experience {
    /// Returns the number of facts.
    pub(super) fn len(&self) -> usize {
        match self {
            Experience::Learned { pairs, .. } => pairs.len(),
            Experience::Reliability(calls) => calls.len(),
        }
    }

    /// Returns a word for the facts.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Experience::Learned { .. } => "pairs learned",
            Experience::Reliability(_) => "tools with calls",
        }
    }

    /// Takes in one query: as if the first tool of each need had been found by a search that knew what came
    /// before, and used with success, after the tools in `failed` had failed.
    pub(super) async fn learn(
        &mut self,
        query: &Query,
        corpus: &Corpus,
        searcher: &Searcher,
    ) -> Result<(), CommandFailure> {
        let used = query.groups.iter().filter_map(|group| group.first());
        let first = match self {
            Experience::Learned { .. } => first_found(query, corpus, &self.applied(corpus, searcher)).await,
            Experience::Reliability(_) => None,
        };
        match self {
            Experience::Learned { pairs, mode, .. } => {
                let text = whole_query(&query.text, &query.keywords);
                let embedding = embed_query(searcher, &text).await.map_err(|reason| {
                    CommandFailure::new(format!("query {}: {reason}", query.id))
                        .remedy("learning needs an embedding provider")
                })?;
                for needed in used {
                    let (server, tool) = needed.as_pair();
                    let id = StoredPair::id_of(None, &text, server, tool);
                    let before = pairs.get(&id).cloned();
                    pairs.upsert(LearnedPair {
                        id,
                        model: Arc::clone(&embedding.model),
                        vector: Arc::clone(&embedding.vector),
                        tool: (server.into(), tool.into()),
                        owner: None,
                        confidence: confidence_after(
                            before.as_ref().map(|pair| pair.confidence),
                            Signal::Searched,
                            *mode,
                        ),
                        last_used: 0,
                        corrects: first.as_ref() != Some(needed) || before.is_some_and(|pair| pair.corrects),
                    });
                }
            }
            Experience::Reliability(calls) => {
                let outcomes = query.failed.iter().map(|tool| (tool, 0)).chain(used.map(|tool| (tool, 1)));
                for (tool, succeeded) in outcomes {
                    let (count, successes) = calls.entry(tool.clone()).or_default();
                    *count += 1;
                    *successes += succeeded;
                }
            }
        }
        Ok(())
    }

    /// Returns a searcher that knows this.
    pub(super) fn applied(&self, corpus: &Corpus, searcher: &Searcher) -> Searcher {
        match self {
            Experience::Learned { pairs, mode, min_similarity } => Searcher {
                learned: Some(LearnedTools {
                    learned: Arc::new(pairs.clone()),
                    catalog: Arc::clone(corpus.catalog()),
                    owner: None,
                    mode: *mode,
                    min_similarity: *min_similarity,
                }),
                ..searcher.clone()
            },
            Experience::Reliability(calls) => {
                let known = |(at, tool): (usize, &Arc<vmcp_model::catalog::CatalogTool>)| {
                    let tool = NeededTool(tool.backend.to_string(), tool.definition.name.clone());
                    let (calls, successes) = *calls.get(&tool)?;
                    let success_rate = (successes as f64 / calls.max(1) as f64) as f32;
                    let reliability = Reliability { calls, success_rate };
                    reliability.counts().then_some((at, reliability))
                };
                let reliability = corpus.tools().iter().enumerate().filter_map(known);
                Searcher { reliability: reliability.collect(), ..searcher.clone() }
            }
        }
    }
}

/// Returns the tool that a search for a query finds first.
async fn first_found(query: &Query, corpus: &Corpus, searcher: &Searcher) -> Option<NeededTool> {
    let request = SearchRequest {
        description: &query.text,
        keywords: &query.keywords,
        limit: Some(1),
        visible: None,
        explain: false,
    };
    let hits = search(searcher, request).await.ranking.hits;
    let tool = hits.first().and_then(|hit| corpus.tool(hit.document))?;
    Some(NeededTool(tool.backend.to_string(), tool.definition.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ask::eval::files::ToolLine;
    use vmcp_engine::search::{QueryVectors, SearchSettings};

    fn searcher(corpus: &Corpus) -> Searcher {
        let search = vmcp_config::load("backends: []", "test", &|_| None).unwrap().config.optimizer.search;
        Searcher {
            index: Arc::new(vmcp_search::Index::new(&corpus.documents())),
            vectors: QueryVectors::Off,
            reliability: [].into(),
            learned: None,
            reranking: None,
            settings: SearchSettings::from(&search),
        }
    }

    #[tokio::test]
    async fn failures_and_successes_of_a_log_make_reliability() {
        let tool = |name: &str| ToolLine {
            server: "s".to_owned(),
            name: name.to_owned(),
            description: None,
            input_schema: None,
        };
        let corpus = Corpus::new(vec![tool("good"), tool("bad"), tool("new")]);
        let needed = |name: &str| NeededTool("s".to_owned(), name.to_owned());
        let query = Query {
            id: "1".to_owned(),
            text: "do".to_owned(),
            keywords: String::new(),
            groups: vec![vec![needed("good")]],
            failed: vec![needed("bad")],
        };
        let searcher = searcher(&corpus);
        let mut experience = Experience::Reliability(BTreeMap::new());
        for _ in 0..4 {
            experience.learn(&query, &corpus, &searcher).await.unwrap();
        }
        assert_eq!(experience.len(), 2);
        let known = experience.applied(&corpus, &searcher).reliability;
        let [(document, Reliability { calls, success_rate })] = known.as_ref() else { panic!("{known:?}") };
        assert_eq!(corpus.tool(*document).unwrap().definition.name, "bad");
        assert_eq!((*calls, *success_rate), (4, 0.0));
    }
}
