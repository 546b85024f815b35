//! Text embeddings: TEI, OpenAI-compatible services and an in-process model behind one trait.
//!
//! Whatever the provider, a vector that leaves this crate is L2-normalized, so that a dot product is the cosine
//! (P3-14), and an answer is all or nothing: as many vectors as texts, all of one width, all finite, or an error.

mod batch;
mod error;
mod http;
pub mod local;
pub mod openai;
pub mod tei;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod vectors;

use std::sync::Arc;

use async_trait::async_trait;

pub use error::EmbedError;
pub use local::{LocalEmbedder, LocalSettings};
pub use openai::{OpenAiEmbedder, OpenAiSettings};
pub use tei::{TeiEmbedder, TeiSettings};

/// Turns texts into vectors.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// One L2-normalized vector for each text, in the order of the texts. Any number of texts; batching, retries and
    /// limits are the provider's business. Calls of a few texts (a query) do not queue behind long ones.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Provider and model as they are now, for the cache key: vectors are comparable when this string is equal.
    /// A remote service is asked again when the last answer is some seconds old, so a swapped model is noticed.
    async fn model_id(&self) -> Result<String, EmbedError>;

    /// How many texts one request carries. Callers that show progress or store as they go hand over multiples of it.
    fn batch_size(&self) -> usize;
}

/// Which provider, and where it is found. The server maps its configuration to this.
#[derive(Clone)]
pub enum EmbedderSettings {
    /// A HuggingFace text-embeddings-inference service.
    Tei(TeiSettings),
    /// Any service that answers `/v1/embeddings`.
    OpenAi(OpenAiSettings),
    /// The model in this process.
    Local(LocalSettings),
}

impl EmbedderSettings {
    /// Builds the provider. Nothing is contacted or loaded before the first call.
    pub fn build(self) -> Result<Arc<dyn Embedder>, EmbedError> {
        Ok(match self {
            Self::Tei(settings) => Arc::new(TeiEmbedder::new(settings)?),
            Self::OpenAi(settings) => Arc::new(OpenAiEmbedder::new(settings)?),
            Self::Local(settings) => Arc::new(LocalEmbedder::new(settings)),
        })
    }
}

/// Calls of up to this many texts count as a query (the description and its clauses): they take the fast lane.
const MAX_QUERY_TEXTS: usize = 9;
