//! [`Webhook`]: an HTTP service that is asked about calls of tools, by the protocol of ToolHive's webhooks.
//!
//! A question is a JSON object with the client, the MCP request and, behind the call, the MCP response; the
//! answer allows, denies, or changes by a JSON Patch (RFC 6902). HTTP 422 denies. `question` writes, `answer`
//! reads, `patch` applies.

mod answer;
mod patch;
mod question;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use vmcp_config::Webhook as Settings;

use super::service::{ClientTls, Post, PostFailure, Reach, RequestSlot, Service};
use super::signature::SignatureHeaders;
use crate::rate_limit::LogLimit;
pub use question::{AskedCall, ToolAnswer};

/// Bytes of a question; a longer one is not asked, and the call is denied.
const MAX_QUESTION_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of an answer, ToolHive's limit; a longer one decides nothing.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Questions under way at once to one webhook; others wait, up to its time limit.
const MAX_CONCURRENT: usize = 64;
/// Questions to one webhook that wait; a further one is not asked.
const MAX_WAITING: usize = 4096;
/// Least time between two log lines about missing answers for one reason.
const LOG_INTERVAL: Duration = Duration::from_mins(1);
/// Headers of a signed question.
const SIGNED: SignatureHeaders =
    SignatureHeaders { timestamp: "x-toolhive-timestamp", signature: "x-toolhive-signature" };

/// Place of a webhook on the way of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookKind {
    /// May change the arguments.
    Mutating,
    /// May deny the call.
    Validating,
    /// May replace or withhold the result.
    Post,
}

impl WebhookKind {
    /// Returns the word for metrics and spans.
    pub fn word(self) -> &'static str {
        match self {
            WebhookKind::Mutating => "mutating",
            WebhookKind::Validating => "validating",
            WebhookKind::Post => "post",
        }
    }
}

/// An answer of a webhook.
#[derive(Debug)]
pub enum WebhookDecision {
    /// The call or its result stays as it is.
    Allowed,
    /// The arguments, the result or the error that takes the place of the one asked about.
    Changed(Box<RawValue>),
    /// The call is denied, the result withheld.
    Denied {
        /// The service's words: at most 300 characters, without the characters that a terminal obeys.
        reason: Option<Arc<str>>,
    },
}

/// The reason of a missing answer. The text is for operators: it shows addresses, neither secrets nor the
/// body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookFailure {
    /// The question cannot be asked, by the fault of the client or the backend: the call is denied, whatever
    /// the failure policy says.
    #[error("the question cannot be asked: {0}")]
    Unaskable(String),
    /// No answer came in time, the wait for a free place included.
    #[error("no answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// [`MAX_WAITING`] questions wait already.
    #[error("the webhook has too many questions to answer")]
    Busy,
    /// The service cannot be reached, or may not be.
    #[error("the webhook cannot be reached: {0}")]
    Unreachable(String),
    /// The service answered with a status other than 200 and 422; redirects are among them.
    #[error("the webhook answered with HTTP {0}")]
    Status(u16),
    /// The answer cannot be read.
    #[error("the webhook's answer cannot be read: {0}")]
    Unreadable(&'static str),
    /// The patch cannot be applied.
    #[error("the webhook's patch cannot be applied: {0}")]
    Patch(String),
}

impl WebhookFailure {
    /// Returns the word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            WebhookFailure::Unaskable(_) => "unaskable",
            WebhookFailure::Timeout(_) => "timeout",
            WebhookFailure::Busy => "busy",
            WebhookFailure::Unreachable(_) => "unreachable",
            WebhookFailure::Status(_) => "status",
            WebhookFailure::Unreadable(_) => "unreadable",
            WebhookFailure::Patch(_) => "patch",
        }
    }

    /// Returns the failure for a client: without an address, and without details of a patch.
    pub fn told(&self) -> String {
        match self {
            WebhookFailure::Unreachable(_) => "the webhook cannot be reached".to_owned(),
            WebhookFailure::Patch(_) => "the webhook's patch cannot be applied".to_owned(),
            other => other.to_string(),
        }
    }
}

/// A service that is asked about calls of tools.
pub struct Webhook {
    settings: Arc<Settings>,
    service: Service,
    /// Places of questions that wait or are under way.
    queue: Semaphore,
    /// Log lines about missing answers, by the reason's word.
    failure_lines: LogLimit<&'static str>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Prepares the service. The process must have installed a TLS provider before the first question.
    pub fn new(settings: Arc<Settings>) -> Webhook {
        let reach = Reach {
            allow_http: settings.insecure_allow_http,
            allow_private: settings.allow_private_addresses,
            tls: ClientTls {
                ca_bundle: settings.ca_bundle_path.clone(),
                identity: settings.client_certificate.clone(),
                skip_verify: settings.insecure_skip_verify,
            },
        };
        let service = Service::new(reach, MAX_CONCURRENT);
        let queue = Semaphore::new(MAX_CONCURRENT + MAX_WAITING);
        Webhook { service, queue, failure_lines: LogLimit::new(LOG_INTERVAL), settings }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Asks about a call; behind it, about its answer.
    pub async fn ask(
        &self,
        kind: WebhookKind,
        call: &AskedCall<'_>,
    ) -> Result<WebhookDecision, WebhookFailure> {
        let question = question::question(&self.settings, call, SystemTime::now())?;
        let Ok(_queued) = self.queue.try_acquire() else { return Err(WebhookFailure::Busy) };
        // Held until the decision is read: it bounds the bodies, the answers and the patches in memory.
        let place = self.service.place(self.settings.timeout).await;
        let place = place.map_err(|failure| self.failure(failure))?;
        let answer = self.post(&place, question.to_body()?).await?;
        let Some(answer) = answer else { return Ok(WebhookDecision::Denied { reason: None }) };
        answer::decision(kind, call, &self.settings, &answer).await
    }

    /// Returns the number of missing answers without a log line since the last line for this reason, if a
    /// line is due: one a minute.
    pub fn log_line(&self, failure: &WebhookFailure) -> Option<u64> {
        self.failure_lines.admit(failure.word(), Instant::now())
    }

    /// Returns the body of the answer; `None`: the status denies.
    async fn post(&self, place: &RequestSlot<'_>, body: Vec<u8>) -> Result<Option<Vec<u8>>, WebhookFailure> {
        let Settings { url, hmac_secret, timeout: limit, .. } = &*self.settings;
        let post = Post { url, body, limit: *limit, max_answer: MAX_ANSWER_BYTES };
        let answer = place.post(post, |request, body| SIGNED.sign(request, hmac_secret.as_ref(), body));
        let answer = answer.await.map_err(|failure| self.failure(failure))?;
        match answer.status {
            reqwest::StatusCode::OK => Ok(Some(answer.body)),
            reqwest::StatusCode::UNPROCESSABLE_ENTITY => Ok(None),
            other => Err(WebhookFailure::Status(other.as_u16())),
        }
    }

    /// Returns a failure of the service in the terms of webhooks.
    fn failure(&self, failure: PostFailure) -> WebhookFailure {
        match failure {
            PostFailure::Timeout => WebhookFailure::Timeout(self.settings.timeout),
            PostFailure::Unreachable(reason) => WebhookFailure::Unreachable(reason),
            PostFailure::TooLarge => WebhookFailure::Unreadable("it has more than 1 MiB"),
        }
    }
}

#[cfg(test)]
mod tests;
