//! Splits many texts into requests of an embedding service: bounded batches, two lanes (bulkhead), and
//! halving of refused batches.

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::Semaphore;

use crate::error::EmbedError;
use crate::http::Patience;
use crate::traffic::QueryTraffic;
use crate::vectors;

/// Bytes of one request body, below TEI's payload limit of 2,000,000.
const MAX_BODY_BYTES: usize = 1_900_000;
/// Bytes of one text that are sent; the rest is cut off. No model that is served this way reads further than
/// 8192 tokens.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Fewest bytes that are left of a text that is halved; a shorter one is refused for another reason.
const MIN_HALVED_BYTES: usize = 8;
/// Bulk requests in flight. One keeps the service busy while the next is on its way; more would only delay
/// queries, because services work in order of arrival.
pub(crate) const MAX_BULK_REQUESTS: usize = 2;

/// The protocol of one kind of service.
#[async_trait]
pub(crate) trait EmbeddingService: Sync {
    /// Sends one request and returns its vectors as they came.
    async fn request(&self, texts: &[&str], patience: Patience) -> Result<Vec<Vec<f32>>, EmbedError>;
    /// Returns an [`EmbedError::Answer`] that names the service.
    fn bad_answer(&self, reason: String) -> EmbedError;
}

/// The lane of a call. The local model has threads for each lane, so that a query shares the cores with bulk
/// work instead of waiting for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A caller waits.
    Query,
    /// Background work.
    Bulk,
}

/// Two lanes to one service (bulkhead): bulk work takes turns and lets queries pass, queries need no turn, so
/// bulk work never crowds them out.
pub(crate) struct RequestLanes {
    bulk: Semaphore,
    queries: QueryTraffic,
}

impl RequestLanes {
    pub(crate) fn new() -> Self {
        Self { bulk: Semaphore::new(MAX_BULK_REQUESTS), queries: QueryTraffic::new() }
    }

    /// Returns the number of texts of a bulk request now, to a service that takes `full`.
    pub(crate) fn bulk_batch(&self, full: usize) -> usize {
        self.queries.bulk_batch(full)
    }

    /// Returns the vectors of all `texts`, checked and normalized, with at most `batch` texts a request.
    pub(crate) async fn embed(
        &self,
        service: &impl EmbeddingService,
        texts: &[String],
        batch: usize,
        lane: Lane,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let texts: Vec<&str> = texts.iter().map(|text| sendable(text)).collect();
        let _query = (lane == Lane::Query).then(|| self.queries.enter());
        let batch = if lane == Lane::Bulk { self.bulk_batch(batch) } else { batch };
        let mut requests = Vec::new();
        for texts in batches(&texts, batch) {
            requests.push(async move {
                // A client waits for a query, so it takes no turn and is retried once only: search goes on
                // without a vector.
                if lane == Lane::Query {
                    return request_or_halve(service, texts, Patience::Query).await;
                }
                let _turn = self.bulk.acquire().await.ok();
                self.queries.let_queries_pass().await;
                request_or_halve(service, texts, Patience::Bulk).await
            });
        }
        let answers: Vec<_> =
            futures::stream::iter(requests).buffered(MAX_BULK_REQUESTS).try_collect().await?;
        let vectors = answers.into_iter().flatten().collect();
        vectors::checked(vectors, texts.len(), None).map_err(|why| service.bad_answer(why))
    }
}

/// Sends one request. A batch that the service finds too large is halved: limits differ by version and by the
/// proxy in between, and so does the status (TEI: 413 up to 1.8, 422 since, 424 if its memory is short;
/// OpenAI: 400). A single text is halved too: only TEI can be told to truncate, and a text that a service
/// refuses, or answers by NaN, costs the other texts nothing.
async fn request_or_halve<S: EmbeddingService>(
    service: &S,
    texts: &[&str],
    patience: Patience,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    match (service.request(texts, patience).await, texts) {
        (Ok(vectors), _) if vectors.len() != texts.len() => {
            Err(service.bad_answer(format!("{} vectors for {} texts", vectors.len(), texts.len())))
        }
        (Ok(mut vectors), _) => {
            for (vector, text) in vectors.iter_mut().zip(texts) {
                if !vectors::has_direction(vector)
                    && let Some(half) = half(text)
                {
                    let shorter = Box::pin(request_or_halve(service, &[half], patience)).await?;
                    *vector = shorter.into_iter().next().unwrap_or_default();
                }
                if !vectors::has_direction(vector) {
                    // Halves of other texts would end the same way.
                    return Err(
                        service.bad_answer("a vector is all zero, infinite or not a number".to_owned())
                    );
                }
            }
            Ok(vectors)
        }
        (Err(error @ EmbedError::Status { status: 400 | 413 | 422 | 424, .. }), [text]) => match half(text) {
            Some(half) => Box::pin(request_or_halve(service, &[half], patience)).await,
            None => Err(error),
        },
        (Err(EmbedError::Status { status: 400 | 413 | 422 | 424, .. }), [_, _, ..]) => {
            let (left, right) = texts.split_at(texts.len() / 2);
            let mut vectors = Box::pin(request_or_halve(service, left, patience)).await?;
            vectors.extend(Box::pin(request_or_halve(service, right, patience)).await?);
            Ok(vectors)
        }
        (Err(error), _) => Err(error),
    }
}

/// Returns the first half of a text; `None` if too little of it is left to say anything.
fn half(text: &str) -> Option<&str> {
    let half = text.get(..text.floor_char_boundary(text.len() / 2))?;
    (half.len() >= MIN_HALVED_BYTES).then_some(half)
}

/// Returns the part of a text that is sent. Services refuse a whole batch for one empty text; a space is the
/// shortest they take.
fn sendable(text: &str) -> &str {
    if text.is_empty() { " " } else { text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text) }
}

/// Yields consecutive runs of at most `count` texts whose JSON stays below [`MAX_BODY_BYTES`].
fn batches<'a>(texts: &'a [&'a str], count: usize) -> impl Iterator<Item = &'a [&'a str]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = rest.iter().take(count).take_while(|text| {
            bytes += serde_json::to_string(text).map_or(0, |json| json.len() + 1);
            bytes < MAX_BODY_BYTES
        });
        let (batch, left) = rest.split_at(fitting.count().max(1).min(rest.len()));
        rest = left;
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::{MAX_BODY_BYTES, MAX_TEXT_BYTES, batches, half, sendable};

    #[test]
    fn batches_keep_order_count_and_size() {
        let small = vec!["x"; 70];
        let sizes: Vec<_> = batches(&small, 32).map(<[_]>::len).collect();
        assert_eq!(sizes, [32, 32, 6]);

        // Control characters grow sixfold in JSON.
        let large = "\u{1}".repeat(MAX_TEXT_BYTES);
        let large = vec![large.as_str(); 10];
        let sizes: Vec<_> = batches(&large, 32).map(<[_]>::len).collect();
        assert!(sizes.iter().all(|size| size * 6 * MAX_TEXT_BYTES < MAX_BODY_BYTES), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 10);
    }

    #[test]
    fn a_short_text_has_no_half() {
        assert_eq!(half("mail send_message: Sends a message."), Some("mail send_message"));
        assert_eq!(half("text 0"), None);
        assert_eq!(half(&"ü".repeat(9)), Some("üüüü"));
    }

    #[test]
    fn a_text_is_cut_between_characters_and_never_empty() {
        assert_eq!(sendable(""), " ");
        let long = "ü".repeat(MAX_TEXT_BYTES);
        assert!(sendable(&long).len() <= MAX_TEXT_BYTES);
    }
}
