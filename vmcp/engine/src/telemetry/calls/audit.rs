//! Audit log: one line for each call, with subject, tool, outcome and latency. Neither arguments nor results
//! are ever logged. The log format adds the trace id.
//!
//! Levels keep the volume sane: denied calls and withheld results are warnings, calls through own tools are
//! info, as they are few; direct calls are debug, as there may be thousands a second.
//! `--log-level info,vmcp::audit=debug` shows them all.

use super::observer::CallObserver;
use super::record::{CallRecord, Outcome};
use super::refusal::Refusal;
use crate::access::policy::PolicyId;
use crate::telemetry::operations::shortened;

/// Writes the audit lines, under the target `vmcp::audit`, by which they can be filtered and routed.
#[derive(Debug)]
pub(super) struct AuditLog;

macro_rules! line {
    ($level:ident, $record:ident, $message:literal $(, $field:ident = $value:expr)*) => {
        tracing::$level!(
            target: "vmcp::audit",
            subject = $record.principal.identity.subject(),
            operator = $record.principal.operator.as_deref(),
            $($field = $value,)*
            outcome = $record.outcome.label(),
            latency_ms = $record.took.as_secs_f64() * 1e3,
            $message
        )
    };
}

impl CallObserver for AuditLog {
    fn observe(&self, record: &CallRecord) {
        record.span.in_scope(|| write(record));
    }

    /// Writes the line of a denied call: an unknown item is logged as a hidden one is.
    fn refused(&self, refusal: &Refusal<'_>) {
        let (Some(method), Some(called)) = (refusal.method, refusal.subject) else { return };
        tracing::warn!(
            target: "vmcp::audit",
            subject = refusal.principal.identity.subject(),
            called = &*shortened(called),
            method = &*shortened(method),
            policy = refusal.reason,
            outcome = Outcome::Denied.label(),
            "call denied"
        );
    }
}

fn write(record: &CallRecord) {
    let called = record.tool.as_ref().map(|tool| tool.name.as_str());
    let own = record.origin.own_tool();
    // Texts of clients, of any size: a flood of refused calls must not fill the log's disk.
    let (method, item) = (shortened(&record.method), called.or(record.subject.as_deref()).map(shortened));
    let (method, item) = (&*method, item.as_deref());
    if record.outcome == Outcome::Denied {
        let policy = record.policy.as_ref().map(PolicyId::as_str);
        line!(warn, record, "call denied", tool = own, called = item, method = method, policy = policy);
    } else if record.outcome == Outcome::Failed("withheld") {
        let policy = record.policy.as_ref().map(PolicyId::as_str);
        line!(warn, record, "result withheld", tool = own, called = item, method = method, policy = policy);
    } else if own.is_some() {
        line!(info, record, "optimizer call", tool = own, called = called);
    } else {
        let backend = record.backend.as_deref();
        line!(debug, record, "backend call", method = method, called = item, backend = backend);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;
    use crate::access::identity::Principal;
    use crate::telemetry::calls::Origin;

    /// Keeps the texts of the fields of lines.
    #[derive(Default, Clone)]
    struct SeenTexts(Arc<Mutex<Vec<(&'static str, String)>>>);

    impl Visit for SeenTexts {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.lock().push((field.name(), value.to_owned()));
        }

        fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
    }

    impl<S: Subscriber> Layer<S> for SeenTexts {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            event.record(&mut self.clone());
        }
    }

    #[test]
    fn a_line_has_the_beginning_of_a_long_text_of_a_client() {
        let seen = SeenTexts::default();
        let (uri, method) = ("x".repeat(1 << 20), "m/".repeat(1 << 20));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(seen.clone()), || {
            let record = CallRecord::begin(Principal::default(), None, Origin::Client);
            let subject = Some(uri.as_str().into());
            let method = method.clone().into();
            write(&CallRecord { subject, method, outcome: Outcome::Denied, ..record });
        });
        let texts = seen.0.lock();
        let of = |name: &str| texts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
        assert!(of("called").is_some_and(|text| text.starts_with("xxx") && text.ends_with('…')), "{texts:?}");
        assert!(of("method").is_some_and(|text| text.len() < 1_000), "{texts:?}");
    }
}
