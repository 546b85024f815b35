//! How an engine is started.

use std::path::PathBuf;
use std::sync::Arc;

use vmcp_backend::Downstream;
use vmcp_embed::Embedder;
use vmcp_store::StoreError;

use crate::telemetry::metrics::Metrics;

/// How an engine is run, beside its configuration.
#[derive(Clone)]
pub struct Options {
    /// Where the cache is.
    pub storage: Storage,
    /// Whether tools are embedded in the background.
    pub embed: bool,
    /// Whether to begin with the definitions that were saved last time.
    pub cached: bool,
    /// Who embeds in place of the configured provider, for benchmarks that leave the model's own time out.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Where to count.
    pub metrics: Arc<Metrics>,
    /// Takes what backends send outside of requests; without it nobody does.
    pub downstream: Option<Arc<dyn Downstream>>,
    /// The one backend is a program whose place this process takes: it is introduced in its own words, its environment
    /// and its standard error are ours, and a call does not wait for its return.
    pub bridge: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage: Storage::Configured,
            embed: true,
            cached: true,
            embedder: None,
            metrics: Arc::default(),
            downstream: None,
            bridge: false,
        }
    }
}

/// Where the cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In the configured folder, or the default one.
    Configured,
    /// In this folder.
    Dir(PathBuf),
    /// In memory.
    Memory,
}

/// Why an engine cannot start. A backend, a model or a disk is never the reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Not even a cache in memory.
    #[error("no cache: {0}")]
    Store(#[from] StoreError),
}
