//! [`Reranker`]: a cross-encoder behind HuggingFace text-embeddings-inference, which reads a query and a text
//! together. Slower and more exact than comparing their vectors.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::EmbedError;
use crate::http::HttpService;

/// A service with TEI's `POST /rerank`.
pub struct Reranker {
    service: HttpService,
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
    /// Checks the settings; contacts nothing. `timeout` is that of one request.
    pub fn new(endpoint: &str, timeout: Duration) -> Result<Self, EmbedError> {
        Ok(Self { service: HttpService::new(endpoint, &[], None, timeout)? })
    }

    /// Returns how well each text answers the query, 0 to 1, in the order of the texts. Asks once: a search
    /// that waits has an order already.
    pub async fn scores(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let body = serde_json::to_vec(&RerankRequest { query, texts, truncate: true })
            .map_err(|error| EmbedError::Settings(error.to_string()))?;
        let path = format!("{}/rerank", self.service.path());
        let answer = self.service.post(&path, Bytes::from(body), 0).await?;
        let ranked: Vec<RankedText> = serde_json::from_slice(&answer)
            .map_err(|error| self.service.bad_answer(format!("/rerank: {error}")))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeService;

    const TEXTS: [&str; 3] = ["sends a mail", "reads the weather forecast", "weather"];

    #[tokio::test]
    async fn scores_come_back_in_the_order_of_the_texts() {
        let service = FakeService::start().await.unwrap();
        let reranker = Reranker::new(&service.url(), Duration::from_secs(30)).unwrap();
        let scores = reranker.scores("weather forecast", &TEXTS).await.unwrap();
        assert!(scores[1] > scores[2] && scores[2] > scores[0], "{scores:?}");
        assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
        assert!(reranker.scores("weather", &[]).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_text_without_a_score_is_a_bad_answer_and_nothing_is_retried() {
        let service = FakeService::start().await.unwrap();
        let reranker = Reranker::new(&service.url(), Duration::from_secs(30)).unwrap();
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
        let reranker = Reranker::new(&service.url(), Duration::from_millis(50)).unwrap();
        assert_eq!(reranker.scores("weather", &TEXTS).await.unwrap_err().category(), "timeout");
    }
}
