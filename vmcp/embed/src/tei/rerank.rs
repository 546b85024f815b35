//! [`Reranker`]: a cross-encoder behind HuggingFace text-embeddings-inference, which reads a query and a text
//! together. Slower and more exact than comparing their vectors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::error::EmbedError;
use crate::http::{HttpService, Patience};
use crate::tei::TeiInfo;

/// Time that the service has for `GET /info`, within the deadline of a search.
const INFO_PATIENCE: Duration = Duration::from_millis(500);
/// Requests in flight of one ordering. A service works on them in order of arrival; the second is on its way
/// while the first is worked on.
const MAX_REQUESTS: usize = 2;

/// A service with TEI's `POST /rerank`.
pub struct Reranker {
    service: HttpService,
    /// Set once `GET /info` has told the batch size, or has failed.
    asked: OnceCell<()>,
    /// Texts of one request.
    batch: AtomicUsize,
}

/// Settings of a re-ranking service. No `Debug`: headers may carry credentials.
#[derive(Clone)]
pub struct RerankerSettings {
    /// Base URL, for example `http://reranker:8080`.
    pub endpoint: String,
    /// Headers sent with every request, for example an `Authorization`.
    pub headers: Vec<(String, String)>,
    /// Timeout of one request.
    pub timeout: Duration,
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    query: &'a str,
    texts: &'a [&'a str],
    truncate: bool,
}

/// The score of one text; the service answers in order of scores.
#[derive(Deserialize)]
struct RankedText {
    index: usize,
    score: f32,
}

impl Reranker {
    /// Checks the settings; contacts nothing.
    pub fn new(settings: &RerankerSettings) -> Result<Self, EmbedError> {
        let RerankerSettings { endpoint, headers, timeout } = settings;
        Ok(Self {
            service: HttpService::new(endpoint, headers, None, *timeout)?,
            asked: OnceCell::new(),
            batch: TeiInfo::default().batch().into(),
        })
    }

    /// Returns how well each text answers the query, 0 to 1, in the order of the texts. More texts than the
    /// service takes at once go in several requests. Asks once: a search that waits has an order already.
    pub async fn scores(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        self.asked.get_or_init(|| self.learn_batch()).await;
        let batch = self.batch.load(Ordering::Relaxed).max(1);
        let requests: Vec<_> = texts.chunks(batch).map(|texts| self.request(query, texts)).collect();
        let scored: Result<Vec<Vec<f32>>, _> =
            futures::stream::iter(requests).buffered(MAX_REQUESTS).try_collect().await;
        if let Err(EmbedError::Status { status: 413 | 422, .. }) = &scored {
            // The service takes less than it said, or than its default: the next search sends less.
            self.batch.store((batch / 2).max(1), Ordering::Relaxed);
        }
        Ok(shares(scored?.into_iter().flatten().collect()))
    }

    /// Returns the path that `/rerank` and `/info` are added to, also if the endpoint names `/rerank` itself.
    fn path(&self) -> &str {
        let path = self.service.path();
        path.strip_suffix("/rerank").unwrap_or(path)
    }

    /// Asks the service for its batch size; TEI's default stays without an answer.
    async fn learn_batch(&self) {
        let path = format!("{}/info", self.path());
        let answer = timeout(INFO_PATIENCE, self.service.get(&path)).await.ok().and_then(Result::ok);
        let info = answer.and_then(|body| serde_json::from_slice::<TeiInfo>(&body).ok());
        self.batch.store(info.unwrap_or_default().batch(), Ordering::Relaxed);
    }

    async fn request(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        let body = serde_json::to_vec(&RerankRequest { query, texts, truncate: true })
            .map_err(|error| EmbedError::Settings(error.to_string()))?;
        let path = format!("{}/rerank", self.path());
        let answer = self.service.post(&path, Bytes::from(body), Patience::Once).await?;
        let ranked: Vec<RankedText> = self.service.parse("/rerank", &answer)?;
        let mut scores = vec![None; texts.len()];
        for RankedText { index, score } in ranked {
            if let Some(slot) = scores.get_mut(index).filter(|_| score.is_finite()) {
                *slot = Some(score);
            }
        }
        let scores: Option<Vec<f32>> = scores.into_iter().collect();
        scores.ok_or_else(|| self.service.bad_answer("/rerank: a text has no score".to_owned()))
    }
}

/// Returns scores from 0 to 1. Some services answer logits: the logistic function keeps their order, which
/// cutting at 0 and 1 would not.
fn shares(mut scores: Vec<f32>) -> Vec<f32> {
    if scores.iter().any(|score| !(0.0..=1.0).contains(score)) {
        for score in &mut scores {
            *score = 1.0 / (1.0 + (-*score).exp());
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeService, InfoAnswer};

    #[test]
    fn logits_keep_their_order() {
        let scores = shares(vec![7.5, -3.0, 0.5, 1e30, -1e30]);
        assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
        assert!(scores[3] > scores[0] && scores[0] > scores[2] && scores[2] > scores[1], "{scores:?}");
        assert_eq!(shares(vec![0.2, 1.0, 0.0]), [0.2, 1.0, 0.0]);
    }

    const TEXTS: [&str; 3] = ["sends a mail", "reads the weather forecast", "weather"];

    fn reranker(service: &FakeService, timeout: Duration) -> Reranker {
        let settings = RerankerSettings { endpoint: service.url(), headers: Vec::new(), timeout };
        Reranker::new(&settings).unwrap()
    }

    #[tokio::test]
    async fn scores_come_back_in_the_order_of_the_texts() {
        let service = FakeService::start().await.unwrap();
        let reranker = reranker(&service, Duration::from_secs(30));
        let scores = reranker.scores("weather forecast", &TEXTS).await.unwrap();
        assert!(scores[1] > scores[2] && scores[2] > scores[0], "{scores:?}");
        assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
        assert!(reranker.scores("weather", &[]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn more_texts_than_the_service_takes_go_in_several_requests() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.max_batch = 4);
        let many: Vec<String> = (0..10).map(|n| format!("text {n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let reranker = reranker(&service, Duration::from_secs(30));
        let scores = reranker.scores("text 9", &many).await.unwrap();
        assert_eq!(scores.iter().position(|score| *score > 0.9), Some(9), "{scores:?}");
        let mut sent: Vec<usize> = service.reranked().iter().map(Vec::len).collect();
        sent.sort_unstable();
        assert_eq!(sent, [2, 4, 4]);
        // A restart with other flags: one refusal, then smaller requests.
        service.set(|behavior| behavior.max_batch = 2);
        assert_eq!(reranker.scores("text", &many).await.unwrap_err().category(), "status");
        assert_eq!(reranker.scores("text", &many).await.unwrap().len(), 10);
    }

    #[tokio::test]
    async fn a_late_description_takes_no_search_its_scores() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.info = InfoAnswer::Late);
        let settings = RerankerSettings {
            endpoint: format!("{}/rerank", service.url()),
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
        };
        assert_eq!(Reranker::new(&settings).unwrap().scores("weather", &TEXTS).await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn configured_headers_are_sent() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.bearer = Some("secret".to_owned()));
        let without = reranker(&service, Duration::from_secs(30));
        assert_eq!(without.scores("weather", &TEXTS).await.unwrap_err().category(), "unauthorized");
        let settings = RerankerSettings {
            endpoint: service.url(),
            headers: vec![("Authorization".to_owned(), "Bearer secret".to_owned())],
            timeout: Duration::from_secs(30),
        };
        assert_eq!(Reranker::new(&settings).unwrap().scores("weather", &TEXTS).await.unwrap().len(), 3);
    }

    #[tokio::test]
    async fn a_text_without_a_score_is_a_bad_answer_and_nothing_is_retried() {
        let service = FakeService::start().await.unwrap();
        let reranker = reranker(&service, Duration::from_secs(30));
        service.set(|behavior| behavior.lose_a_vector = true);
        let error = reranker.scores("weather", &TEXTS).await.unwrap_err();
        assert_eq!(error.category(), "answer", "{error}");
        service.set(|behavior| behavior.failures.extend([503, 503]));
        let error = reranker.scores("weather", &TEXTS).await.unwrap_err();
        assert_eq!((error.category(), service.requests()), ("overloaded", 2));
    }

    #[tokio::test]
    async fn a_service_that_hangs_is_waited_for_no_longer_than_the_timeout() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.delay = Duration::from_mins(2));
        let reranker = reranker(&service, Duration::from_millis(50));
        assert_eq!(reranker.scores("weather", &TEXTS).await.unwrap_err().category(), "timeout");
    }
}
