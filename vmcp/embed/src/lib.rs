//! Text embeddings: a TEI service, an OpenAI-compatible service or a model in this process, behind one trait.
//!
//! All providers make the same promise. A vector that leaves this crate is L2-normalized, so that a dot
//! product is the cosine; and an answer is all or nothing: as many vectors as texts, all of one width, all
//! finite, or an error.

mod batch;
pub mod canary;
mod chat;
mod embedder;
mod error;
mod http;
pub mod local;
pub mod openai;
pub mod tei;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod traffic;
mod vectors;

use std::sync::Arc;

pub use chat::{ChatModel, ChatSettings};
pub use embedder::Embedder;
pub use error::EmbedError;
pub use local::{LocalEmbedder, LocalSettings};
pub use openai::{OpenAiEmbedder, OpenAiSettings};
pub use tei::rerank::{Reranker, RerankerSettings};
pub use tei::{TeiEmbedder, TeiSettings};

/// The provider and its address. The server maps its configuration to this.
#[derive(Clone)]
pub enum EmbedderSettings {
    /// A HuggingFace text-embeddings-inference service.
    Tei(TeiSettings),
    /// A service that answers `/v1/embeddings`.
    OpenAi(OpenAiSettings),
    /// The model in this process.
    Local(LocalSettings),
}

impl EmbedderSettings {
    /// Builds the provider. It contacts and loads nothing before its first call.
    pub fn build(self) -> Result<Arc<dyn Embedder>, EmbedError> {
        Ok(match self {
            Self::Tei(settings) => Arc::new(TeiEmbedder::new(settings)?),
            Self::OpenAi(settings) => Arc::new(OpenAiEmbedder::new(settings)?),
            Self::Local(settings) => Arc::new(LocalEmbedder::new(settings)),
        })
    }
}
