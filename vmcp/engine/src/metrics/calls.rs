//! Metrics of the calls to each backend.

use std::collections::HashMap;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{BackendLabels, CallLabels, Metrics};

/// Label `outcome` of a call that succeeded.
const OK: &str = "ok";

/// The metrics of the calls to each backend. Looked up once per backend: the families behind them lock.
pub(super) type BackendCalls = ArcSwap<HashMap<String, BackendMetrics>>;

/// The metrics of one backend.
#[derive(Clone, Debug)]
pub(super) struct BackendMetrics {
    duration: Histogram,
    ok: Counter,
}

impl Metrics {
    /// Counts a call to a backend.
    pub fn count_call(&self, backend: &str, outcome: &'static str, duration: Duration) {
        let known = self.calls.load();
        let calls = known.get(backend).cloned().unwrap_or_else(|| self.calls_of(backend));
        calls.duration.observe(duration.as_secs_f64());
        if outcome == OK {
            calls.ok.inc();
        } else {
            let labels = CallLabels { backend: backend.to_owned(), outcome };
            self.backend_calls.get_or_create(&labels).inc();
        }
    }

    fn calls_of(&self, backend: &str) -> BackendMetrics {
        let labels = BackendLabels { backend: backend.to_owned() };
        let ok = CallLabels { backend: backend.to_owned(), outcome: OK };
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
