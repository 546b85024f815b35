//! Metrics of calls: [`Metrics`] observes the record of each call.

use std::collections::HashMap;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{BackendLabels, CallLabels, Metrics};
use crate::telemetry::calls::{CallObserver, CallRecord, Origin, Outcome};

/// The metrics of the calls to each backend. Looked up once per backend: the families behind them lock.
pub(super) type BackendCalls = ArcSwap<HashMap<String, BackendMetrics>>;

/// The metrics of one backend.
#[derive(Clone, Debug)]
pub(super) struct BackendMetrics {
    duration: Histogram,
    ok: Counter,
}

impl CallObserver for Metrics {
    fn observe(&self, record: &CallRecord) {
        let (requests, errors, duration) = match record.origin {
            Origin::FindTool => (&self.find_tool_requests, &self.find_tool_errors, &self.find_tool_duration),
            Origin::CallTool => (&self.call_tool_requests, &self.call_tool_errors, &self.call_tool_duration),
            Origin::Client
            | Origin::Own(_)
            | Origin::Fallback
            | Origin::Step
            | Origin::Script
            | Origin::Internal => {
                return self.count_backend(record);
            }
        };
        requests.inc();
        duration.observe(record.took.as_secs_f64());
        if record.outcome != Outcome::Ok {
            errors.inc();
        }
        self.count_backend(record);
    }
}

impl Metrics {
    fn count_backend(&self, record: &CallRecord) {
        if let Some(backend) = &record.backend {
            self.count_call(backend, record.outcome.label(), record.backend_took);
        }
        self.count_client_operation(record);
    }

    /// Counts a call to a backend.
    pub fn count_call(&self, backend: &str, outcome: &'static str, duration: Duration) {
        let known = self.calls.load();
        let calls = known.get(backend).cloned().unwrap_or_else(|| self.calls_of(backend));
        calls.duration.observe(duration.as_secs_f64());
        if outcome == Outcome::Ok.label() {
            calls.ok.inc();
        } else {
            let labels = CallLabels { backend: backend.to_owned(), outcome };
            self.backend_calls.get_or_create(&labels).inc();
        }
    }

    fn calls_of(&self, backend: &str) -> BackendMetrics {
        let labels = BackendLabels { backend: backend.to_owned() };
        let ok = CallLabels { backend: backend.to_owned(), outcome: Outcome::Ok.label() };
        let calls = BackendMetrics {
            duration: self.backend_duration.get_or_create_owned(&labels),
            ok: self.backend_calls.get_or_create_owned(&ok),
        };
        self.calls.rcu(|all| {
            let mut all = HashMap::clone(all);
            all.insert(backend.to_owned(), calls.clone());
            all
        });
        calls
    }
}
