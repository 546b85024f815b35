//! [`ClusterIssuerCache`]: issuer and public keys of the cluster's ServiceAccount tokens, from the API
//! server.
//!
//! The API server serves both to authenticated callers (ClusterRole
//! `system:service-account-issuer-discovery`, which every ServiceAccount has by default). The operator hands
//! them to pods, which hold no token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use vmcp_crds::lower::ClusterIssuer;
use vmcp_error_chain::error_chain;

/// Metadata of the issuer (OpenID Connect Discovery).
const METADATA: &str = "/.well-known/openid-configuration";
/// Key set of the issuer.
const KEYS: &str = "/openid/v1/jwks";
/// Time for which an answer counts. Servers are looked at again every five minutes, so that a rotated key
/// reaches pods within six.
const FRESH: Duration = Duration::from_mins(1);
/// Timeout of each of the two requests.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Most bytes of a key set; a cluster has a few keys of 500 bytes.
const MAX_KEYS_BYTES: usize = 256 << 10;

/// Time for which a failure counts: every reconcile of every server that takes such tokens would ask again.
const FAILURE_FRESH: Duration = Duration::from_secs(10);

/// The last answer and the last failure, each with its time.
#[derive(Default)]
pub(super) struct ClusterIssuerCache(Mutex<LastAnswers>);

#[derive(Default, Clone)]
struct LastAnswers {
    known: Option<(Instant, Arc<ClusterIssuer>)>,
    failed: Option<(Instant, String)>,
}

impl LastAnswers {
    /// Returns the state without a new question, if the answers are fresh enough.
    fn fresh(&self, now: Instant) -> Option<ClusterIssuerState> {
        let known = self.known.as_ref();
        if let Some((_, known)) = known.filter(|(at, _)| now.duration_since(*at) < FRESH) {
            return Some(ClusterIssuerState::Known(Arc::clone(known)));
        }
        let failed = self.failed.as_ref();
        let (_, reason) = failed.filter(|(at, _)| now.duration_since(*at) < FAILURE_FRESH)?;
        Some(self.after_failure(reason))
    }

    /// Returns the state after a failure: the last answer counts.
    fn after_failure(&self, reason: &str) -> ClusterIssuerState {
        if let Some((_, known)) = &self.known {
            return ClusterIssuerState::Known(Arc::clone(known));
        }
        ClusterIssuerState::Unknown(format!(
            "the API server tells no keys of ServiceAccount tokens: {reason}; bind the ClusterRole \
             system:service-account-issuer-discovery to the operator, or set `useClusterAuth: false` with the issuer's own URL"
        ))
    }
}

/// Issuer and keys, for a resource that may ask for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ClusterIssuerState {
    /// The resource takes no keys of the cluster.
    #[default]
    NotNeeded,
    /// The answer of the API server.
    Known(Arc<ClusterIssuer>),
    /// The API server gave no answer that can be used: the fault, and the remedy.
    Unknown(String),
}

impl ClusterIssuerState {
    /// Returns the answer.
    pub(crate) fn known(&self) -> Option<&ClusterIssuer> {
        match self {
            Self::Known(issuer) => Some(issuer),
            Self::NotNeeded | Self::Unknown(_) => None,
        }
    }

    /// Returns the fault.
    pub(crate) fn fault(&self) -> Option<&str> {
        match self {
            Self::Unknown(fault) => Some(fault),
            Self::NotNeeded | Self::Known(_) => None,
        }
    }
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

impl ClusterIssuerCache {
    /// Returns issuer and keys of the cluster. While the API server fails, the last answer counts: without
    /// it, a failure would look like a mistake of the resource.
    pub(super) async fn state(&self, client: &Client) -> ClusterIssuerState {
        let last = self.0.lock().clone();
        if let Some(state) = last.fresh(Instant::now()) {
            return state;
        }
        match read(client).await {
            Ok(issuer) => {
                // Equal values share one allocation: every reconcile compares them.
                let issuer = match last.known {
                    Some((_, known)) if *known == issuer => known,
                    _ => Arc::new(issuer),
                };
                let known = Some((Instant::now(), Arc::clone(&issuer)));
                *self.0.lock() = LastAnswers { known, failed: None };
                ClusterIssuerState::Known(issuer)
            }
            Err(reason) => {
                tracing::warn!(reason, "the API server tells no keys of ServiceAccount tokens");
                let state = last.after_failure(&reason);
                self.0.lock().failed = Some((Instant::now(), reason));
                state
            }
        }
    }
}

async fn read(client: &Client) -> Result<ClusterIssuer, String> {
    let (metadata, keys) = tokio::try_join!(get(client, METADATA), get(client, KEYS))?;
    parse(&metadata, keys)
}

async fn get(client: &Client, path: &str) -> Result<String, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match tokio::time::timeout(TIMEOUT, client.request_text(request)).await {
        Err(_) => Err(format!("GET {path} got no answer within {} s", TIMEOUT.as_secs())),
        Ok(answer) => answer.map_err(|error| format!("GET {path}: {}", error_chain(&error))),
    }
}

/// Checks both documents. An empty key set is refused: it would turn every token away.
fn parse(metadata: &str, keys: String) -> Result<ClusterIssuer, String> {
    let unreadable = |path: &str, error: serde_json::Error| format!("{path}: {error}");
    let Metadata { issuer } = serde_json::from_str(metadata).map_err(|error| unreadable(METADATA, error))?;
    if keys.len() > MAX_KEYS_BYTES {
        return Err(format!("{KEYS}: {} bytes, and at most {MAX_KEYS_BYTES} are handed on", keys.len()));
    }
    let set: KeySet = serde_json::from_str(&keys).map_err(|error| unreadable(KEYS, error))?;
    if set.keys.is_empty() {
        return Err(format!("{KEYS}: no keys"));
    }
    Ok(ClusterIssuer { issuer, keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_for_a_moment_and_the_last_answer_counts() {
        let now = Instant::now();
        let issuer = Arc::new(ClusterIssuer { issuer: "https://a".to_owned(), keys: "{}".to_owned() });
        let mut answers = LastAnswers::default();
        assert_eq!(answers.fresh(now), None);
        answers.failed = Some((now, "forbidden".to_owned()));
        let fault = answers.fresh(now).and_then(|state| state.fault().map(str::to_owned)).unwrap();
        assert!(fault.contains("forbidden") && fault.contains("issuer-discovery"), "{fault}");
        assert_eq!(answers.fresh(now + FAILURE_FRESH), None, "asked again");
        answers.known = Some((now, Arc::clone(&issuer)));
        assert_eq!(answers.fresh(now), Some(ClusterIssuerState::Known(Arc::clone(&issuer))));
        answers.failed = Some((now + FRESH, "forbidden".to_owned()));
        assert_eq!(answers.fresh(now + FRESH), Some(ClusterIssuerState::Known(issuer)));
    }

    #[test]
    fn documents_of_other_forms_are_no_keys() {
        let metadata =
            r#"{"issuer":"https://kubernetes.default.svc","jwks_uri":"https://10.0.0.1/openid/v1/jwks"}"#;
        let keys = r#"{"keys":[{"kty":"RSA","kid":"a"}]}"#.to_owned();
        let issuer = parse(metadata, keys.clone()).unwrap();
        assert_eq!((issuer.issuer.as_str(), &issuer.keys), ("https://kubernetes.default.svc", &keys));
        for (metadata, keys, reason) in [
            ("{}", keys.as_str(), "missing field `issuer`"),
            (metadata, r#"{"keys":[]}"#, "no keys"),
            (metadata, "<html>", "/openid/v1/jwks: expected value"),
        ] {
            let refused = parse(metadata, keys.to_owned()).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let many = format!("{{\"keys\":[\"{}\"]}}", "a".repeat(MAX_KEYS_BYTES));
        assert!(parse(metadata, many).unwrap_err().contains("at most 262144"));
    }
}
