//! Services that help to rank tools: a language model and a cross-encoder. Each is made when it is first
//! asked for, and again when its settings change.

use std::sync::Arc;

use parking_lot::Mutex;
use vmcp_config::{Config, Llm, Rerank};
use vmcp_embed::{ChatModel, ChatSettings, EmbedError, Reranker, RerankerSettings};

use crate::search::reranking::GuardedReranker;

/// The services of one process.
#[derive(Default)]
pub(in crate::engine) struct RankingServices {
    language_model: CachedService<Llm, ChatModel>,
    reranker: CachedService<Rerank, GuardedReranker>,
}

/// A service, and the settings that it was made of.
struct CachedService<S, T>(Mutex<Option<(S, Arc<T>)>>);

impl<S, T> Default for CachedService<S, T> {
    fn default() -> Self {
        CachedService(Mutex::default())
    }
}

impl<S: Clone + PartialEq, T> CachedService<S, T> {
    /// Returns the service of these settings.
    fn get(&self, wanted: &S, build: impl FnOnce() -> Result<T, EmbedError>) -> Option<Arc<T>> {
        let mut known = self.0.lock();
        if let Some((_, made)) = known.as_ref().filter(|(settings, _)| settings == wanted) {
            return Some(Arc::clone(made));
        }
        let service =
            build().inspect_err(|error| tracing::error!(%error, "a service that ranks cannot be used"));
        let service = Arc::new(service.ok()?);
        *known = Some((wanted.clone(), Arc::clone(&service)));
        Some(service)
    }
}

impl RankingServices {
    /// Returns the language model that ranks tools; `None` if none is configured.
    pub(in crate::engine) fn chat_model(&self, config: &Config) -> Option<Arc<ChatModel>> {
        let wanted = config.optimizer.llm.as_ref()?;
        let build = || {
            ChatModel::new(ChatSettings {
                endpoint: wanted.endpoint.to_string(),
                model: wanted.model.clone(),
                api_key: wanted.api_key.as_ref().map(|key| key.expose().to_owned()),
                timeout: wanted.timeout,
            })
        };
        self.language_model.get(wanted, build)
    }

    /// Returns the service that reorders the first hits; `None` if none is configured.
    pub(in crate::engine) fn reranker(&self, config: &Config) -> Option<Arc<GuardedReranker>> {
        let wanted = config.optimizer.rerank.as_ref()?;
        self.reranker.get(wanted, || reranker(wanted))
    }
}

/// Makes the service of these settings; contacts nothing.
pub fn reranker(wanted: &Rerank) -> Result<GuardedReranker, EmbedError> {
    let headers = wanted.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
    let settings = RerankerSettings {
        endpoint: wanted.endpoint.to_string(),
        headers: headers.collect(),
        timeout: wanted.timeout,
    };
    let guard = |reranker| GuardedReranker::new(reranker, wanted.timeout, wanted.candidates);
    Reranker::new(&settings).map(guard)
}
