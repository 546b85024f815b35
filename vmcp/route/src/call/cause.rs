//! Cause of a failed connection, for the client: "the connection ended before the answer" helps nobody who
//! cannot read the log.

use vmcp_backend::{Backend, CallError};

use crate::caller::CallContext;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Snapshot;

/// Most characters of a cause: an error is often a whole page of a program's output.
pub(crate) const MAX_CAUSE_CHARACTERS: usize = 300;

/// Adds what is known about the cause, where [`may_be_shown`]: the words of the server about this call, else
/// the backend's last error to a call that could not be sent or got no answer.
pub(super) fn explain(mut error: CallError, context: CallContext<'_>, backend: &str) -> CallError {
    let snapshot = context.snapshot;
    if !may_be_shown(snapshot, &context.caller.principal) || error.show_detail(MAX_CAUSE_CHARACTERS) {
        return error;
    }
    match error {
        CallError::Unavailable { reason, transmission, detail } => {
            let status = snapshot.backends.get(backend).map(Backend::status);
            let reason = match status.and_then(|status| status.last_error) {
                Some(cause) => with_cause(&reason, &cause),
                None => reason,
            };
            CallError::Unavailable { reason, transmission, detail }
        }
        error => error,
    }
}

/// True if the client is on this machine: a cause may name hosts and quote what a program printed. Clients of
/// a proxy on this machine are elsewhere.
pub(crate) fn may_be_shown(snapshot: &Snapshot, client: &Principal) -> bool {
    let is_here = client.address.is_none_or(|address| address.to_canonical().is_loopback());
    is_here && snapshot.config.server.listen.ip().is_loopback()
}

/// Returns the beginning of a cause.
pub(crate) fn shortened(cause: &str) -> String {
    cause.chars().take(MAX_CAUSE_CHARACTERS).collect()
}

fn with_cause(reason: &str, cause: &str) -> String {
    // The last error may be of this call: "tools/call failed: REASON".
    match cause.find(reason).and_then(|at| cause.get(at..)) {
        Some(cause) => shortened(cause),
        None => format!("{reason} ({})", shortened(cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_in_short() {
        let timeout = "connection timeout after 30s: no such host";
        assert_eq!(with_cause("connection timeout", timeout), timeout);
        assert_eq!(with_cause("the connection has ended", "exited"), "the connection has ended (exited)");
        let refused = "credentials were refused (HTTP 403)";
        assert_eq!(with_cause(refused, &format!("tools/call failed: {refused}")), refused);
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), MAX_CAUSE_CHARACTERS);
    }
}
