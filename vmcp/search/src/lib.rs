//! Hybrid tool retrieval: text analysis, BM25F, vector scan, fusion; pure.
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

mod analysis;
mod bm25f;
mod clauses;
mod document;
mod evidence;
mod fusion;
mod index;
pub mod measures;
mod query;
mod sentence;
mod stopwords;
mod vectors;
mod visible;

pub use clauses::{MAX_CLAUSES, split_clauses};
pub use document::{Document, TEXT_VERSION, vector_text};
pub use fusion::SMALL_SET;
pub use index::Index;
pub use query::{
    Clause, DEFAULT_LIMIT, DEFAULT_SEMANTIC_RATIO, Explanation, Hit, Query, QueryTerm, Ranking, SearchMode,
};
pub use sentence::first_sentence;
pub use vectors::Vectors;
pub use visible::Visible;
