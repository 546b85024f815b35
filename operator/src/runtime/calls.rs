//! Calls of the API server: each has a deadline, writes are counted and wait for nothing but leadership.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::{Context, Failure, Retry, chain};

/// How long one call may take.
pub const DEADLINE: Duration = Duration::from_secs(15);

/// What a call does; the label of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Server-side apply.
    Apply,
    /// A merge patch.
    Patch,
    /// Deletes one object.
    Delete,
}

impl Verb {
    /// As the metric and the messages say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Apply => "apply",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Another replica may have taken over.
    #[error("this replica no longer holds the lease; it writes nothing")]
    NotLeader,
    /// The API server took too long.
    #[error("{verb} of {kind} {name} got no answer within {} s", DEADLINE.as_secs())]
    Deadline {
        /// What was done.
        verb: Verb,
        /// To which kind.
        kind: &'static str,
        /// To which object.
        name: String,
    },
    /// The API server said no, or could not be reached.
    #[error("{verb} of {kind} {name} failed: {}", words(cause))]
    Api {
        /// What was done.
        verb: Verb,
        /// To which kind.
        kind: &'static str,
        /// To which object.
        name: String,
        /// Why. It is no source: printed by itself, it says everything twice, the second time for programmers.
        cause: Box<kube::Error>,
    },
}

/// What the API server says to people, without the comparison of two versions that it prints below.
fn words(cause: &kube::Error) -> String {
    let kube::Error::Api(status) = cause else { return chain(cause) };
    let Some(said) = status.message.lines().next() else { return chain(cause) };
    // Such as the storage class of a claim, or the selector of a Deployment.
    let cannot_change =
        ["is immutable", "updates to statefulset spec"].iter().any(|words| said.contains(words));
    let remedy = if cannot_change { "; delete the object, and a new one is made" } else { "" };
    format!("{said}{remedy}")
}

impl CallError {
    /// The HTTP status that the API server answered with.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { cause, .. } => match cause.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether nothing can be made any more because the namespace is being deleted.
    fn is_of_a_namespace_that_ends(&self) -> bool {
        let Self::Api { cause, .. } = self else { return false };
        let kube::Error::Api(status) = cause.as_ref() else { return false };
        // The word of the API server: `NamespaceTerminatingCause` in k8s.io/api/core/v1.
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

impl Failure for CallError {
    fn category(&self) -> &'static str {
        match self {
            Self::NotLeader => "NotLeader",
            Self::Deadline { .. } => "ApiTimeout",
            Self::Api { .. } => match self.code() {
                Some(401 | 403) => "Forbidden",
                Some(404) => "NotFound",
                Some(409) => "Conflict",
                Some(400 | 422) => "Refused",
                _ => "ApiUnavailable",
            },
        }
    }

    fn retry(&self) -> Retry {
        match self.code() {
            _ if self.is_of_a_namespace_that_ends() => Retry::NotNeeded,
            Some(409) => Retry::Soon,
            _ => Retry::Backoff,
        }
    }
}

impl Context {
    /// Makes one call of the API server.
    pub async fn call<T>(
        &self,
        verb: Verb,
        kind: &'static str,
        name: &str,
        call: impl Future<Output = kube::Result<T>> + Send,
    ) -> Result<T, CallError> {
        if !matches!(verb, Verb::Get | Verb::List) {
            if !self.leadership.holds() {
                return Err(CallError::NotLeader);
            }
            self.metrics.wrote(kind, verb);
        }
        let named = || name.to_owned();
        match tokio::time::timeout(DEADLINE, call).await {
            Err(_) => Err(CallError::Deadline { verb, kind, name: named() }),
            Ok(Err(cause)) => Err(CallError::Api { verb, kind, name: named(), cause: Box::new(cause) }),
            Ok(Ok(value)) => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_server_once() {
        let status = Status::failure("spec.maxUnavailable: Invalid value", "Invalid").with_code(422);
        let cause = Box::new(kube::Error::Api(Box::new(status)));
        let error = CallError::Api {
            verb: Verb::Apply,
            kind: "PodDisruptionBudget",
            name: "x-vmcp".to_owned(),
            cause,
        };
        let said = "apply of PodDisruptionBudget x-vmcp failed: spec.maxUnavailable: Invalid value";
        assert_eq!((chain(&error).as_str(), error.category()), (said, "Refused"));
    }

    #[test]
    fn a_namespace_that_ends_needs_nothing_more() {
        let refusal = |reason: &str| {
            let status = serde_json::json!({
                "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "services \"vmcp-x\" is forbidden: unable to create new content in namespace a because it is being terminated",
                "details": { "name": "vmcp-x", "kind": "services", "causes": [{ "reason": reason, "field": "metadata.namespace" }] },
            });
            let cause = Box::new(kube::Error::Api(serde_json::from_value(status).expect("a status")));
            CallError::Api { verb: Verb::Apply, kind: "Service", name: "vmcp-x".to_owned(), cause }
        };
        assert_eq!(refusal("NamespaceTerminating").retry(), Retry::NotNeeded);
        assert_eq!(refusal("Other").retry(), Retry::Backoff);
    }

    #[test]
    fn what_cannot_be_changed_can_be_made_anew() {
        let said =
            "spec: Forbidden: spec is immutable after creation except resources.requests\n  core.Spec{\n-  1";
        let cause = kube::Error::Api(Box::new(Status::failure(said, "Invalid").with_code(422)));
        let remedy = "except resources.requests; delete the object, and a new one is made";
        assert!(words(&cause).ends_with(remedy), "{}", words(&cause));
    }
}
