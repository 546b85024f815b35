//! [`CallObservers`]: the readers of call records, in one list.

use std::fmt;
use std::sync::Arc;

use super::audit::AuditLog;
use super::record::CallRecord;
use super::refusal::Refusal;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::CallSpans;

/// Reads the record of each call when it has ended. Runs in the request path, perhaps in a destructor: must
/// neither block nor wait.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// Takes note of one call.
    fn observe(&self, record: &CallRecord);

    /// Takes note of a request that was refused before it was a call.
    fn refused(&self, _: &Refusal<'_>) {}

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
