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
pub struct CallObservers {
    all: Vec<Arc<dyn CallObserver>>,
    /// The observer that keeps records.
    keeper: Option<Arc<dyn CallObserver>>,
}

impl CallObservers {
    /// Lists the observers; `more` come last.
    pub fn new(metrics: &Arc<Metrics>, more: Vec<Arc<dyn CallObserver>>) -> CallObservers {
        let log = Arc::new(AuditLog::default());
        let mut all: Vec<Arc<dyn CallObserver>> =
            vec![Arc::clone(metrics) as Arc<dyn CallObserver>, Arc::new(CallSpans), log];
        all.extend(more);
        let keeper = all.iter().find(|observer| observer.keeps_records()).map(Arc::clone);
        CallObservers { all, keeper }
    }

    /// Tells every observer of a refusal.
    pub fn refused(&self, refusal: &Refusal<'_>) {
        for observer in &self.all {
            observer.refused(refusal);
        }
    }

    /// Tells every observer of an action.
    pub fn acted(&self, action: &Action<'_>) {
        for observer in &self.all {
            observer.acted(action);
        }
    }

    /// Tells every observer that a call is about to be sent; returns false if it must not be, because its
    /// begin could not be put on record.
    pub async fn begin(&self, record: &CallRecord) -> bool {
        for observer in &self.all {
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
        self.all.iter().any(|observer| observer.digests_arguments())
    }

    /// Most bytes of arguments that some observer wants.
    pub(super) fn argument_bytes(&self) -> usize {
        self.all.iter().map(|observer| observer.argument_bytes()).max().unwrap_or(0)
    }

    /// Shows the record of a call that has ended to every observer, and hands it to the observer that keeps
    /// records.
    pub(super) fn end(&self, record: &mut CallRecord) {
        for observer in &self.all {
            observer.observe(record);
        }
        if let Some(keeper) = &self.keeper {
            keeper.keep(record);
        }
    }
}
