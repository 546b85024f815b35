//! [`CallObserver`]: a reader of call records.

use std::fmt;

use tokio::sync::oneshot;

use super::action::Action;
use super::record::CallRecord;
use super::refusal::Refusal;

/// Tells whether the begin of a call is on record; false, or an error: it is not.
pub type Begun = oneshot::Receiver<bool>;

/// Reads the record of each call when it has ended. Runs in the request path, perhaps in a destructor: must
/// neither block nor wait.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// Takes note of one call.
    fn observe(&self, record: &CallRecord);

    /// Takes note of a request that was refused before it was a call.
    fn refused(&self, _: &Refusal<'_>) {}

    /// Takes note of an action beside calls.
    fn acted(&self, _: &Action<'_>) {}

    /// Takes note of a call that is about to be sent. A call whose begin must be on record waits for the
    /// result.
    fn begins(&self, _: &CallRecord) -> Option<Begun> {
        None
    }

    /// True for the observer that keeps whole records; a process has at most one.
    fn keeps_records(&self) -> bool {
        false
    }

    /// Takes over the facts of a record that all observers have read. A copy would change the reference
    /// counts of its parts, which all threads share.
    fn keep(&self, _: &mut CallRecord) {}

    /// True if this observer wants the digest of arguments in a record.
    fn digests_arguments(&self) -> bool {
        false
    }

    /// Most bytes of arguments that this observer wants to see in a record; 0: none.
    fn argument_bytes(&self) -> usize {
        0
    }
}
