//! [`CallObservers`]: the readers of call records, in one list.

use std::sync::Arc;

use super::action::Action;
use super::audit::AuditLog;
use super::call_spans::CallSpans;
use super::observer::CallObserver;
use super::record::CallRecord;
use super::refusal::Refusal;
use crate::metrics::Metrics;

/// All observers of a process, in the order in which they read.
#[derive(Debug)]
pub struct CallObservers(Vec<Arc<dyn CallObserver>>);

impl CallObservers {
    /// Lists the observers; `more` come last.
    pub fn new(metrics: &Arc<Metrics>, more: Vec<Arc<dyn CallObserver>>) -> CallObservers {
        let log = Arc::new(AuditLog::default());
        let mut all: Vec<Arc<dyn CallObserver>> =
            vec![Arc::clone(metrics) as Arc<dyn CallObserver>, Arc::new(CallSpans), log];
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
