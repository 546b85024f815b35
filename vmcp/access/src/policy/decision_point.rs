//! [`DecisionPoint`]: an HTTP service that is asked about each call which the policies permit.
//!
//! Questions go through the proxies and the address rules of all configured calls; no redirect is followed.
//! Questions under way, time and the size of an answer are bounded. An answer counts for the same question,
//! in all its parts, for a time. `message` writes questions and reads answers. [`webhooks`] are services of
//! another protocol, which may also change arguments and results; [`notices`] go to services that decide
//! nothing.

mod message;
pub mod notices;
mod service;
mod signature;
pub mod webhooks;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use vmcp_config::DecisionPoint as Settings;

use crate::rate_limit::LogLimit;
pub use message::{AskedItem, PointQuestion};
use service::{ClientTls, Post, PostFailure, Reach, Service};
use signature::SignatureHeaders;

/// Bytes of an answer; a longer one decides nothing.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Bytes of a question; a longer one is not asked, and the call is denied.
const MAX_QUESTION_BYTES: usize = 1024 * 1024;
/// Answers that are cached (LRU).
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Least time between two log lines about missing decisions for one reason: while the service is down, each
/// call has one.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
/// Headers of a signed question.
const SIGNED: SignatureHeaders =
    SignatureHeaders { timestamp: "vmcp-timestamp", signature: "vmcp-signature" };

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointDecision {
    /// True if the call may go on.
    pub allowed: bool,
    /// The service's reason: at most 300 characters, without the characters that a terminal obeys.
    pub reason: Option<Arc<str>>,
    /// True if the answer to an earlier question was used.
    pub cached: bool,
}

/// The reason of a missing decision. Shows neither secrets nor the body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointFailure {
    /// The question cannot be asked, by the fault of the client: the call is denied, whatever
    /// [`Settings::on_failure`] says.
    #[error("the question cannot be asked: {0}")]
    Unaskable(String),
    /// No answer came in time, the wait for a free place included.
    #[error("no answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// The service cannot be reached, or may not be.
    #[error("the decision point cannot be reached: {0}")]
    Unreachable(String),
    /// The service answered with a status other than 200.
    #[error("the decision point answered with HTTP {0}")]
    Status(u16),
    /// The answer lacks a decision.
    #[error("the decision point's answer is no decision: {0}")]
    NoDecision(&'static str),
}

impl PointFailure {
    /// Returns the word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            PointFailure::Unaskable(_) => "unaskable",
            PointFailure::Timeout(_) => "timeout",
            PointFailure::Unreachable(_) => "unreachable",
            PointFailure::Status(_) => "status",
            PointFailure::NoDecision(_) => "no_decision",
        }
    }
}

/// A service that decides about calls.
pub struct DecisionPoint {
    settings: Arc<Settings>,
    service: Service,
    /// Decisions by the digest of their question, with the time until which they count.
    decisions: Mutex<LruCache<[u8; 32], (PointDecision, Instant)>>,
    /// Log lines about missing decisions, by the reason's word.
    failure_lines: LogLimit<&'static str>,
}

impl std::fmt::Debug for DecisionPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecisionPoint").field("url", &self.settings.url.as_str()).finish_non_exhaustive()
    }
}

impl DecisionPoint {
    /// Prepares the service. The process must have installed a TLS provider before the first question.
    pub fn new(settings: Arc<Settings>) -> DecisionPoint {
        let reach = Reach {
            allow_http: settings.insecure_allow_http,
            allow_private: settings.allow_private_addresses,
            tls: ClientTls { ca_bundle: settings.ca_bundle_path.clone(), ..ClientTls::default() },
        };
        DecisionPoint {
            service: Service::new(reach, settings.max_concurrent as usize),
            decisions: Mutex::new(LruCache::sparse(MAX_CACHED)),
            failure_lines: LogLimit::new(LOG_INTERVAL),
            settings,
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Asks one question.
    pub async fn ask(&self, question: &PointQuestion<'_>) -> Result<PointDecision, PointFailure> {
        let body = message::question(&self.settings, question)?;
        let key: [u8; 32] = Sha256::digest(&body).into();
        if let Some(decision) = self.known(&key, Instant::now()) {
            return Ok(decision);
        }
        let decision = self.post(body).await?;
        self.keep(key, &decision, Instant::now());
        Ok(decision)
    }

    /// Returns the number of missing decisions without a log line since the last line for this reason, if a
    /// line is due: one a minute.
    pub fn log_line(&self, failure: &PointFailure) -> Option<u64> {
        self.failure_lines.admit(failure.word(), Instant::now())
    }

    /// Returns the decision about the same question, if it still counts.
    fn known(&self, key: &[u8; 32], now: Instant) -> Option<PointDecision> {
        let mut decisions = self.decisions.lock();
        let (decision, until) = decisions.get(key)?;
        if *until > now {
            return Some(PointDecision { cached: true, ..decision.clone() });
        }
        decisions.pop(key);
        None
    }

    fn keep(&self, key: [u8; 32], decision: &PointDecision, now: Instant) {
        if !self.settings.cache_for.is_zero() {
            self.decisions.lock().put(key, (decision.clone(), now + self.settings.cache_for));
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<PointDecision, PointFailure> {
        let Settings { url, bearer_token, hmac_secret, timeout: limit, .. } = &*self.settings;
        let post = Post { url, body, limit: *limit, max_answer: MAX_ANSWER_BYTES };
        let answer = self.service.post(post, |mut request, body| {
            if let Some(token) = bearer_token {
                request = request.bearer_auth(token.expose());
            }
            SIGNED.sign(request, hmac_secret.as_ref(), body)
        });
        let answer = answer.await.map_err(|failure| match failure {
            PostFailure::Timeout => PointFailure::Timeout(*limit),
            PostFailure::Unreachable(reason) => PointFailure::Unreachable(reason),
            PostFailure::TooLarge => PointFailure::NoDecision("it has more than 64 KiB"),
        })?;
        if answer.status != reqwest::StatusCode::OK {
            return Err(PointFailure::Status(answer.status.as_u16()));
        }
        message::decision(&answer.body)
    }
}

#[cfg(test)]
mod tests;
