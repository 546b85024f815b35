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
            called,
            method,
            policy = refusal.reason,
            outcome = Outcome::Denied.label(),
            "call denied"
        );
    }
}

fn write(record: &CallRecord) {
    let called = record.tool.as_ref().map(|tool| tool.name.as_str());
    let own = record.origin.own_tool();
    let method = &*record.method;
    let item = called.or(record.subject.as_deref());
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
