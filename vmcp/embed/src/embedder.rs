//! [`Embedder`]: the trait that all providers of vectors implement.

pub(crate) mod instructions;

use async_trait::async_trait;

use crate::error::EmbedError;

/// Turns texts into vectors.
///
/// ```
/// use async_trait::async_trait;
/// use vmcp_embed::{EmbedError, Embedder};
///
/// /// Knows two directions: short and long.
/// struct ByLength;
///
/// #[async_trait]
/// impl Embedder for ByLength {
///     async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
///         let vector = |text: &String| if text.len() < 10 { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
///         Ok(texts.iter().map(vector).collect())
///     }
///
///     async fn model_id(&self) -> Result<String, EmbedError> {
///         Ok("by-length/1".to_owned())
///     }
///
///     fn batch_size(&self) -> usize {
///         32
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), EmbedError> {
/// let embedder: Box<dyn Embedder> = Box::new(ByLength);
/// let vectors = embedder.embed(&["echo".to_owned(), "create an issue".to_owned()]).await?;
/// let dot: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
/// assert_eq!(dot, 0.0, "nothing in common");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Returns one L2-normalized vector for each text to be found, in the order of the texts. Any number of
    /// texts: batching, retries and limits are the provider's business. This is bulk work, which gives way to
    /// queries.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Returns one vector for each text of a query, as [`embed`](Self::embed) does for texts to be found. A
    /// caller waits for it, so it queues behind no bulk work and gives up soon; and some models want queries
    /// with an instruction before them.
    async fn embed_queries(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed(queries).await
    }

    /// Returns provider and model as they are now, for the cache key: vectors are comparable if this string
    /// is equal. A remote service is asked again when its last answer is some seconds old, so a swapped model
    /// is noticed.
    async fn model_id(&self) -> Result<String, EmbedError>;

    /// Returns the number of texts that one request carries now: fewer beside searches. Callers that
    /// show progress, or store results as they go, hand over multiples of it.
    fn batch_size(&self) -> usize;

    /// Loads what the first text needs, if anything; a failure shows in the next call. A caller's time limit
    /// for its vectors begins afterwards.
    async fn prepare(&self) {}

    /// True if one name always means the same weights. Otherwise callers compare the vector of the
    /// [canary](crate::canary) before they mix vectors of two requests.
    fn is_pinned(&self) -> bool {
        false
    }

    /// True if searches by this model find more when a short query is embedded in a second form too, as a
    /// phrase about a tool.
    fn takes_short_forms(&self) -> bool {
        false
    }
}
