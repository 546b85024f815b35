//! Bound on the retries of a call.

/// Retries of a call at a server without sessions.
const MAX_RETRIES: u32 = 1;
/// Retries at a server with sessions. Two losses may follow each other there: a restarted server ends the
/// connection first, then knows the client's session no more.
const MAX_SESSION_RETRIES: u32 = 2;

/// True if a call that was retried `retries` times may be sent once more.
pub(crate) fn is_allowed(retries: u32, keeps_state: bool) -> bool {
    retries < if keeps_state { MAX_SESSION_RETRIES } else { MAX_RETRIES }
}
