//! [`QueryCache`]: an LRU cache of query vectors in front of an embedder. Agents repeat their searches, and a
//! repeated one should cost the provider nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use lru::LruCache;
use parking_lot::Mutex;
use vmcp_embed::{EmbedError, Embedder};

use super::known_model::KnownModel;

/// Cached texts; beyond it the least recently used is evicted. 1.5 KiB each with the local model, some 12 KiB
/// with others.
const MAX_CACHED_TEXTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// An embedder that remembers its last vectors.
pub(in crate::engine) struct QueryCache {
    embedder: Arc<dyn Embedder>,
    cached: Mutex<CachedVectors>,
}

#[derive(Debug)]
struct CachedVectors {
    vectors: LruCache<Box<str>, Arc<[f32]>>,
    /// Model that embedded the tools; `None`: not identified yet.
    model: Option<Arc<KnownModel>>,
    /// Raised when the cache is cleared, so that an answer of the model before is not added afterwards.
    epoch: u64,
}

impl QueryCache {
    /// Puts an empty cache in front of `embedder`.
    pub(in crate::engine) fn new(embedder: Arc<dyn Embedder>) -> Arc<QueryCache> {
        let cached = CachedVectors { vectors: LruCache::sparse(MAX_CACHED_TEXTS), model: None, epoch: 0 };
        Arc::new(QueryCache { embedder, cached: Mutex::new(cached) })
    }

    /// Forgets all vectors; from now on they are made by `model`.
    pub(in crate::engine) fn use_model(&self, model: Arc<KnownModel>) {
        let mut cached = self.cached.lock();
        cached.vectors.clear();
        cached.model = Some(model);
        cached.epoch += 1;
    }
}

#[async_trait]
impl Embedder for QueryCache {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (mut found, model, epoch) = {
            let mut cached = self.cached.lock();
            let found: Vec<_> = texts.iter().map(|text| cached.vectors.get(&**text).cloned()).collect();
            (found, cached.model.clone(), cached.epoch)
        };
        let missing: Vec<String> = texts
            .iter()
            .zip(&found)
            .filter(|(_, known)| known.is_none())
            .map(|(text, _)| text.clone())
            .collect();
        if !missing.is_empty() {
            let made = self.embedder.embed_queries(&missing).await?;
            self.check(model.as_deref(), &made).await?;
            let mut made = made.into_iter().map(Arc::<[f32]>::from);
            let mut cached = self.cached.lock();
            for (text, vector) in texts.iter().zip(&mut found).filter(|(_, known)| known.is_none()) {
                *vector = made.next();
                if let Some(vector) = vector.as_ref().filter(|_| cached.epoch == epoch) {
                    cached.vectors.put(text.as_str().into(), Arc::clone(vector));
                }
            }
        }
        Ok(found.into_iter().flatten().map(|vector| vector.to_vec()).collect())
    }

    /// Returns the key of the model that embedded the tools, so that what is learned by queries is compared
    /// with nothing else.
    async fn model_id(&self) -> Result<String, EmbedError> {
        let known = self.cached.lock().model.clone();
        match known {
            Some(model) => Ok(model.key.clone()),
            None => self.embedder.model_id().await,
        }
    }

    fn batch_size(&self) -> usize {
        self.embedder.batch_size()
    }

    async fn prepare(&self) {
        self.embedder.prepare().await;
    }

    fn takes_short_forms(&self) -> bool {
        self.embedder.takes_short_forms()
    }
}

impl QueryCache {
    /// Fails if the vectors of a query are of another model than those of the tools, as far as its name and
    /// its width tell; the background task compares the rest.
    async fn check(&self, model: Option<&KnownModel>, made: &[Vec<f32>]) -> Result<(), EmbedError> {
        let Some(known) = model.filter(|_| !self.embedder.is_pinned()) else { return Ok(()) };
        made.iter().try_for_each(|vector| known.check_width(vector))?;
        let answered = self.embedder.model_id().await?;
        if answered == known.id { Ok(()) } else { Err(EmbedError::ModelChanged { model: answered }) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts the texts it embeds.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl Embedder for Counting {
        async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.0.fetch_add(texts.len(), Ordering::Relaxed);
            Ok(texts.iter().map(|text| vec![text.len() as f32]).collect())
        }

        async fn model_id(&self) -> Result<String, EmbedError> {
            Ok("counting".to_owned())
        }

        fn batch_size(&self) -> usize {
            8
        }
    }

    #[tokio::test]
    async fn a_repeated_text_is_embedded_once() {
        let counting = Arc::new(Counting::default());
        let cache = QueryCache::new(counting.clone());
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(cache.embed(&texts(&["a", "bb"])).await.unwrap(), [[1.0], [2.0]]);
        assert_eq!(cache.embed(&texts(&["ccc", "a", "bb"])).await.unwrap(), [[3.0], [1.0], [2.0]]);
        assert_eq!(counting.0.load(Ordering::Relaxed), 3);
        cache.use_model(Arc::new(KnownModel::pinned("counting".to_owned())));
        assert_eq!(cache.embed(&texts(&["a"])).await.unwrap(), [[1.0]]);
        assert_eq!(counting.0.load(Ordering::Relaxed), 4, "another model embeds anew");
        cache.use_model(Arc::new(KnownModel::pinned("before".to_owned())));
        let error = cache.embed(&texts(&["a"])).await.unwrap_err();
        assert_eq!(error.category(), "model_changed", "the tools have vectors of another model");
    }
}
