//! One call of the API server: the timeout, the check of leadership before a write, the count, and the error
//! in words for people.

use std::future::Future;
use std::time::Duration;

use super::admission_remedies::admission_remedy;
use super::rights::{Verb, verbs_of};
use crate::runtime::context::Context;
use crate::runtime::failure::{Failure, Retry};
use vmcp_error_chain::error_chain;

/// The longest that one call may take; then it fails with [`CallError::Timeout`]. A write ends with the lease
/// at the latest.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Error of one call of the API server.
///
/// ```
/// # use vmcp_operator::runtime::{CallError, Failure as _, Retry, Verb};
/// let status = kube::core::Status::failure("the object has been modified", "Conflict").with_code(409);
/// let cause = Box::new(kube::Error::Api(Box::new(status)));
/// let error = CallError::Api { verb: Verb::Apply, kind: "Service", name: "vmcp-x".to_owned(), cause };
/// assert_eq!(error.to_string(), "apply of Service vmcp-x failed: the object has been modified");
/// assert_eq!((error.category(), error.retry()), ("Conflict", Retry::Soon));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The lease was lost: another replica may lead by now.
    #[error("this replica no longer holds the lease; it writes nothing")]
    NotLeader,
    /// The API server did not answer in time.
    #[error("{verb} of {kind} {name} got no answer within {seconds} s")]
    Timeout {
        /// The call.
        verb: Verb,
        /// The kind of the object.
        kind: &'static str,
        /// The name of the object.
        name: String,
        /// Time that the call had, in seconds.
        seconds: u64,
    },
    /// The API server refused, or could not be reached.
    #[error("{verb} of {kind} {name} failed: {}", words_of(cause))]
    Api {
        /// The call.
        verb: Verb,
        /// The kind of the object.
        kind: &'static str,
        /// The name of the object.
        name: String,
        /// The error. Not a `source`: the message above has its words already, and the chain would print them
        /// twice.
        cause: Box<kube::Error>,
    },
}

/// Returns the first line of the API server's message; the lines below it compare two versions of the object
/// field by field.
fn words_of(cause: &kube::Error) -> String {
    let kube::Error::Api(status) = cause else { return error_chain(cause) };
    let Some(said) = status.message.lines().next() else { return error_chain(cause) };
    // Immutable are for instance the storage class of a claim, or the selector of a Deployment.
    let cannot_change =
        ["is immutable", "updates to statefulset spec"].iter().any(|words| said.contains(words));
    let replace = || "delete the object, and the operator makes a new one".to_owned();
    match cannot_change.then(replace).or_else(|| admission_remedy(said)) {
        Some(remedy) => format!("{said}; {remedy}"),
        None => said.to_owned(),
    }
}

impl CallError {
    /// Returns the HTTP status of the API server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Api { cause, .. } => match cause.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if nothing can be created any more because the namespace is being deleted.
    fn is_namespace_terminating(&self) -> bool {
        let Self::Api { cause, .. } = self else { return false };
        let kube::Error::Api(status) = cause.as_ref() else { return false };
        // `NamespaceTerminatingCause` in k8s.io/api/core/v1.
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

impl Failure for CallError {
    fn category(&self) -> &'static str {
        match self {
            Self::NotLeader => "NotLeader",
            Self::Timeout { .. } => "ApiTimeout",
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
            _ if self.is_namespace_terminating() => Retry::NotNeeded,
            Some(409) => Retry::Soon,
            _ => Retry::Backoff,
        }
    }
}

impl Context {
    /// Makes one call of the API server. A write is refused unless this replica leads, and counted.
    pub(crate) async fn call<T>(
        &self,
        verb: Verb,
        kind: &'static str,
        name: &str,
        call: impl Future<Output = kube::Result<T>> + Send,
    ) -> Result<T, CallError> {
        debug_assert!(verbs_of(kind).contains(&verb), "{verb} of {kind} is missing in `rights.rs`");
        let is_write = !matches!(verb, Verb::Get | Verb::List);
        let mut timeout = CALL_TIMEOUT;
        if is_write {
            let Some(remaining) = self.leadership.remaining() else { return Err(CallError::NotLeader) };
            // A write on its way must not outlive the lease.
            timeout = timeout.min(remaining);
            self.metrics.wrote(kind, verb.as_str());
        }
        let named = || name.to_owned();
        match tokio::time::timeout(timeout, call).await {
            Err(_) if is_write && !self.leadership.holds() => Err(CallError::NotLeader),
            Err(_) => Err(CallError::Timeout { verb, kind, name: named(), seconds: timeout.as_secs() }),
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
        assert_eq!((error_chain(&error).as_str(), error.category()), (said, "Refused"));
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
        let remedy = "except resources.requests; delete the object, and the operator makes a new one";
        assert!(words_of(&cause).ends_with(remedy), "{}", words_of(&cause));
    }
}
