//! Queries, and the rankings that answer them.

use serde::Serialize;

use crate::learning::{DEFAULT_LEARNED_WEIGHT, DEFAULT_RELIABILITY_WEIGHT, Reliability};

/// Hits returned when the caller names no limit.
pub const DEFAULT_LIMIT: usize = 8;
/// Weight of the cosine arm when nothing else is configured. The optimum is flat: .5 and .7 are within .005
/// NDCG@10.
pub const DEFAULT_SEMANTIC_RATIO: f32 = 0.6;

/// One search: texts, their embeddings, and how to rank.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// Description and keywords together.
    pub text: &'a str,
    /// Embedding of [`text`](Query::text). Without one, or with one of another width than the tools' vectors
    /// or with a value that is not finite, the keyword arm answers alone.
    pub vector: Option<&'a [f32]>,
    /// Embedding of the [`query_form`](crate::query_form) of the text; without one, or in a
    /// [small set](crate::SMALL_SET), the text is compared in its own form alone.
    pub short_vector: Option<&'a [f32]>,
    /// Clauses from [`split_clauses`](crate::split_clauses); fewer than two change nothing.
    pub clauses: &'a [Clause<'a>],
    /// Most hits to return.
    pub limit: usize,
    /// Weight of the cosine arm, 0 (keywords only) to 1 (cosine only).
    pub semantic_ratio: f32,
    /// Largest cosine distance (0 to 2) of a semantic hit, as in ToolHive: a tool beyond it is a hit only if
    /// the keyword arm matches. 2 or `None` filter nothing.
    pub distance_threshold: Option<f32>,
    /// Success of tools' calls by document number, in ascending order; a tool that is not here was not called
    /// enough.
    pub reliability: &'a [(usize, Reliability)],
    /// Weight of reliability, 0 (none) to 1.
    pub reliability_weight: f32,
    /// Strength, 0 to 1, with which learned pairs speak for a document, by document number in ascending
    /// order.
    pub learned: &'a [(usize, f32)],
    /// Weight of learned pairs, 0 (none) to 1.
    pub learned_weight: f32,
    /// Documents that come among the first three hits, the most promoted one first; further ones than three
    /// are ignored.
    pub promoted: &'a [usize],
    /// Adds an [`Explanation`] to each hit.
    pub explain: bool,
}

impl Default for Query<'_> {
    fn default() -> Self {
        Query {
            text: "",
            vector: None,
            short_vector: None,
            clauses: &[],
            limit: DEFAULT_LIMIT,
            semantic_ratio: DEFAULT_SEMANTIC_RATIO,
            distance_threshold: None,
            reliability: &[],
            reliability_weight: DEFAULT_RELIABILITY_WEIGHT,
            learned: &[],
            learned_weight: DEFAULT_LEARNED_WEIGHT,
            promoted: &[],
            explain: false,
        }
    }
}

/// One clause of a query that asks for several things.
#[derive(Clone, Copy, Debug)]
pub struct Clause<'a> {
    /// Its text.
    pub text: &'a str,
    /// Embedding of its text; without one the keyword arm alone ranks this clause.
    pub vector: Option<&'a [f32]>,
    /// Embedding of the [`short_form`](crate::short_form) of its text.
    pub short_vector: Option<&'a [f32]>,
}

/// The arms that decided the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// Both arms.
    Hybrid,
    /// Cosine alone, because the ratio is 1.
    Semantic,
    /// Keywords alone: no vectors, no query vector, or the ratio is 0.
    Keyword,
}

/// The ranked hits of a search, and the counts that explain them.
#[derive(Clone, Debug, Serialize)]
pub struct Ranking {
    /// Best first; ties in document order.
    pub hits: Vec<Hit>,
    /// The arms that decided the order.
    pub mode: SearchMode,
    /// Documents that the caller may see.
    pub visible: usize,
    /// Visible documents that have no vector (yet). Their cosine is estimated from their words.
    pub without_vector: usize,
    /// Visible documents that share a term with the query.
    pub keyword_matches: usize,
    /// The query's terms, in the order of its words.
    pub terms: Vec<QueryTerm>,
    /// The clauses that took part.
    pub clauses: Vec<String>,
}

/// A term of the query as the keyword arm looks it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueryTerm {
    /// Lower-case stem.
    pub term: String,
    /// Visible documents that have it.
    pub documents: usize,
}

/// One tool found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Its number, by position in the slice that the index was made of.
    pub document: usize,
    /// Monotone in the fused value; 0 to 1, comparable within one answer.
    pub score: f32,
    /// Present when the query asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// Explains the place of one hit. "Normalized" is the z-score over the visible tools, or their min-max scale
/// when they are fewer than [`SMALL_SET`](crate::SMALL_SET).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Cosine similarity of query and tool; `None` when either has no vector.
    pub cosine: Option<f32>,
    /// Rank by cosine among the visible tools, from 1.
    pub cosine_rank: Option<usize>,
    /// The semantic arm, normalized: the cosine, or the closeness of both forms of a short text; an estimate
    /// if the tool has no vector.
    pub cosine_normalized: f32,
    /// BM25F of query and tool, 0 when they share no term.
    pub bm25: f32,
    /// Rank by BM25F among the visible tools, from 1; `None` when they share no term.
    pub bm25_rank: Option<usize>,
    /// BM25F, normalized.
    pub bm25_normalized: f32,
    /// Number of the best clause and its fused value, when clauses took part.
    pub best_clause: Option<(usize, f32)>,
    /// The value that the tool gained for a short query: by its effect, and by its server.
    pub prior: f32,
    /// Success of the tool's calls, if it changed the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliability>,
    /// The value that the tool lost by its failures.
    pub reliability_penalty: f32,
    /// The learned bonus of the tool.
    pub learned_bonus: f32,
    /// True if the tool was used for nearly the same query, and comes among the first three for that.
    pub promoted: bool,
    /// The value that orders the hits: the fused one with the prior and the bonus, without the penalty.
    pub fused: f32,
    /// The score of a [cross-encoder](crate::rerank), if one has ordered the first hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank_score: Option<f32>,
}
