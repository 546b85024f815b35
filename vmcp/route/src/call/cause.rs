//! Cause of a failed connection, for the client: "the connection ended before the answer" helps nobody who
//! cannot read the log.

use vmcp_backend::{Backend, CallError};

use vmcp_engine::engine::Snapshot;

/// Most characters of a cause: an error is often a whole page of a program's output.
pub(crate) const MAX_CAUSE_CHARACTERS: usize = 300;

/// Adds the backend's last error to that of a call that could not be sent or got no answer, where
/// [`may_be_shown`].
pub(super) fn explain(error: CallError, snapshot: &Snapshot, backend: &str) -> CallError {
    match error {
        CallError::Unavailable { reason, transmission } if may_be_shown(snapshot) => {
            let status = snapshot.backends.get(backend).map(Backend::status);
            let reason = match status.and_then(|status| status.last_error) {
                Some(cause) => with_cause(&reason, &cause),
                None => reason,
            };
            CallError::Unavailable { reason, transmission }
        }
        error => error,
    }
}

/// True if clients are on this machine: a cause may name hosts and quote what a program printed.
pub(crate) fn may_be_shown(snapshot: &Snapshot) -> bool {
    snapshot.config.server.listen.ip().is_loopback()
}

/// Returns the beginning of a cause.
pub(crate) fn shortened(cause: &str) -> String {
    cause.chars().take(MAX_CAUSE_CHARACTERS).collect()
}

fn with_cause(reason: &str, cause: &str) -> String {
    let cause = shortened(cause);
    if cause.starts_with(reason) { cause } else { format!("{reason} ({cause})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once_and_in_short() {
        let timeout = "connection timeout after 30s: no such host";
        assert_eq!(with_cause("connection timeout", timeout), timeout);
        assert_eq!(with_cause("the connection has ended", "exited"), "the connection has ended (exited)");
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), MAX_CAUSE_CHARACTERS);
    }
}
