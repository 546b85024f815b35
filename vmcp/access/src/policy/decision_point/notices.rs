//! [`NoticeReceiver`]: a service that is told of events and decides nothing.

use std::sync::Arc;
use std::time::Duration;

use vmcp_config::SessionWebhook as Settings;

use super::SIGNED;
use super::service::{ClientTls, Post, PostFailure, Reach, Service};

/// Bytes of an answer with status 200 that are read; a longer one counts as taken all the same.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The reason why a notice was not taken. The text is for operators: it shows addresses, no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoticeFailure {
    /// No answer came in time.
    #[error("no answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// The service cannot be reached, or may not be.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The service answered with a status outside of the 200s; redirects are among them.
    #[error("it answered with HTTP {0}")]
    Status(u16),
}

impl NoticeFailure {
    /// True if another attempt may end otherwise: a status of the 300s and 400s stays what it is, but for 408
    /// and 429.
    pub fn is_passing(&self) -> bool {
        match self {
            NoticeFailure::Timeout(_) | NoticeFailure::Unreachable(_) => true,
            NoticeFailure::Status(status) => matches!(status, 408 | 429 | 500..),
        }
    }
}

/// A service that is told of events.
pub struct NoticeReceiver {
    settings: Arc<Settings>,
    service: Service,
}

impl std::fmt::Debug for NoticeReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NoticeReceiver").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

impl NoticeReceiver {
    /// Prepares the service. The process must have installed a TLS provider before the first notice.
    pub fn new(settings: Arc<Settings>) -> NoticeReceiver {
        let reach = Reach {
            allow_http: settings.insecure_allow_http,
            allow_private: settings.allow_private_addresses,
            tls: ClientTls { ca_bundle: settings.ca_bundle_path.clone(), identity: None, skip_verify: false },
        };
        NoticeReceiver { service: Service::new(reach, 1), settings }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Posts a notice, signed now. One is under way at a time.
    pub async fn send(&self, body: Vec<u8>) -> Result<(), NoticeFailure> {
        let Settings { url, hmac_secret, timeout, .. } = &*self.settings;
        let post = Post { url, body, limit: *timeout, max_answer: MAX_ANSWER_BYTES };
        let answer =
            self.service.post(post, |request, body| SIGNED.sign(request, hmac_secret.as_ref(), body));
        match answer.await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(NoticeFailure::Status(answer.status.as_u16())),
            // The service has taken it, and says much.
            Err(PostFailure::TooLarge) => Ok(()),
            Err(PostFailure::Timeout) => Err(NoticeFailure::Timeout(*timeout)),
            Err(PostFailure::Unreachable(reason)) => Err(NoticeFailure::Unreachable(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_final_and_an_outage_is_not() {
        for passing in [408, 429, 500, 503] {
            assert!(NoticeFailure::Status(passing).is_passing(), "{passing}");
        }
        for lasting in [302, 400, 401, 404, 410] {
            assert!(!NoticeFailure::Status(lasting).is_passing(), "{lasting}");
        }
        assert!(NoticeFailure::Unreachable(String::new()).is_passing());
    }
}
