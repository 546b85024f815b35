//! Hybrid retrieval of tools: BM25F over words and cosine similarity over embeddings, fused into one ranking.
//! Pure computation: no I/O, no locks, no clock.
//!
//! A [`Document`] is the text of one tool. An [`Index`] of all documents is immutable and shared;
//! [`Index::search`] takes a [`Query`] and the [`Visible`] documents of one caller, and returns a
//! [`Ranking`].
//!
//! ```
//! use vmcp_search::{Document, Index, Query};
//!
//! let tool = |name: &str, description: &str| Document {
//!     name: name.into(),
//!     description: description.into(),
//!     ..Document::default()
//! };
//! let index = Index::new(&[tool("get_weather", "Forecast for a city"), tool("send_mail", "Sends a message")]);
//! let ranking = index.search(&Query { text: "mailing somebody", ..Query::default() }, None);
//! assert_eq!(ranking.hits[0].document, 1);
//! ```

mod alternatives;
mod bm25f;
mod document;
mod evidence;
mod fusion;
mod index;
pub mod learning;
pub mod measures;
mod query;
mod text;
mod vectors;
mod visible;

pub use alternatives::Candidate;
pub use document::{Document, TEXT_VERSION, vector_text};
pub use fusion::SMALL_SET;
pub use index::{Index, rerank};
pub use learning::{DEFAULT_RELIABILITY_WEIGHT, Reliability};
pub use query::{
    Clause, DEFAULT_LIMIT, DEFAULT_SEMANTIC_RATIO, Explanation, Hit, Query, QueryTerm, Ranking, SearchMode,
};
pub use text::{
    MAX_CLAUSES, first_sentence, paraphrase_texts, paraphrase_vectors, query_form, request_of, short_form,
    split_clauses,
};
pub use vectors::Vectors;
pub use visible::Visible;
