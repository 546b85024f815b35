//! [`CallObservers`]: the readers of call records, in one list.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::action::Action;
use super::audit::AuditLog;
use super::record::CallRecord;
use super::refusal::Refusal;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::CallSpans;

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

    /// True if this observer wants the digest of arguments in a record.
    fn digests_arguments(&self) -> bool {
        false
    }

    /// Most bytes of arguments that this observer wants to see in a record; 0: none.
    fn argument_bytes(&self) -> usize {
        0
    }
}

/// All observers of a process, in the order in which they read.
#[derive(Debug)]
pub struct CallObservers(Vec<Arc<dyn CallObserver>>);

impl CallObservers {
    /// Lists the observers; `more` come last.
    pub fn new(metrics: &Arc<Metrics>, more: Vec<Arc<dyn CallObserver>>) -> CallObservers {
        let mut all: Vec<Arc<dyn CallObserver>> =
            vec![Arc::clone(metrics) as Arc<dyn CallObserver>, Arc::new(CallSpans), Arc::new(AuditLog)];
        all.extend(more);
        CallObservers(all)
    }

    /// Tells every observer of a refusal.
    pub fn refused(&self, refusal: &Refusal<'_>) {
        for observer in &self.0 {
            observer.refused(refusal);
        }
    }

    /// Tells every observer of an action.
    pub fn acted(&self, action: &Action<'_>) {
        for observer in &self.0 {
            observer.acted(action);
        }
    }

    /// Tells every observer that a call is about to be sent; returns false if it must not be, because its
    /// begin could not be put on record.
    pub async fn begin(&self, record: &CallRecord) -> bool {
        for observer in &self.0 {
            if let Some(begun) = observer.begins(record)
                && !begun.await.unwrap_or(false)
            {
                return false;
            }
        }
        true
    }

    /// True if some observer wants the digest of arguments.
    pub(super) fn digest_arguments(&self) -> bool {
        self.0.iter().any(|observer| observer.digests_arguments())
    }

    /// Most bytes of arguments that some observer wants.
    pub(super) fn argument_bytes(&self) -> usize {
        self.0.iter().map(|observer| observer.argument_bytes()).max().unwrap_or(0)
    }

    /// Shows a record to every observer.
    pub(super) fn observe(&self, record: &CallRecord) {
        for observer in &self.0 {
            observer.observe(record);
        }
    }
}
