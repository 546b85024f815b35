//! [`QueryCache`]: an LRU cache of query vectors in front of an embedder. Agents repeat their searches, and a
//! repeated one should cost the provider nothing.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use lru::LruCache;
use parking_lot::Mutex;
use vmcp_embed::{EmbedError, Embedder};

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
    /// Raised when the cache is cleared, so that an answer of the model before is not added afterwards.
    epoch: u64,
}

impl QueryCache {
    /// Puts an empty cache in front of `embedder`.
    pub(in crate::engine) fn new(embedder: Arc<dyn Embedder>) -> Arc<QueryCache> {
        let cached = CachedVectors { vectors: LruCache::new(MAX_CACHED_TEXTS), epoch: 0 };
        Arc::new(QueryCache { embedder, cached: Mutex::new(cached) })
    }

    /// Forgets all vectors: they are of another model.
    pub(in crate::engine) fn clear(&self) {
        let mut cached = self.cached.lock();
        cached.vectors.clear();
        cached.epoch += 1;
    }
}

#[async_trait]
impl Embedder for QueryCache {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (mut found, epoch) = {
            let mut cached = self.cached.lock();
            let found: Vec<_> = texts.iter().map(|text| cached.vectors.get(&**text).cloned()).collect();
            (found, cached.epoch)
        };
        let missing: Vec<String> = texts
            .iter()
            .zip(&found)
            .filter(|(_, known)| known.is_none())
            .map(|(text, _)| text.clone())
            .collect();
        if !missing.is_empty() {
            let mut made = self.embedder.embed_queries(&missing).await?.into_iter().map(Arc::<[f32]>::from);
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

    async fn model_id(&self) -> Result<String, EmbedError> {
        self.embedder.model_id().await
    }

    fn batch_size(&self) -> usize {
        self.embedder.batch_size()
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
        cache.clear();
        assert_eq!(cache.embed(&texts(&["a"])).await.unwrap(), [[1.0]]);
        assert_eq!(counting.0.load(Ordering::Relaxed), 4, "another model embeds anew");
    }
}
