//! [`CallObservers`]: the readers of call records, in one list.

use std::fmt;
use std::sync::Arc;

use super::audit::AuditLog;
use super::record::CallRecord;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::CallSpans;

/// Reads the record of each call when it has ended. Runs in the request path, perhaps in a destructor: must
/// neither block nor wait.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// Takes note of one call.
    fn observe(&self, record: &CallRecord);
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

    /// Shows a record to every observer.
    pub(super) fn observe(&self, record: &CallRecord) {
        for observer in &self.0 {
            observer.observe(record);
        }
    }
}
