//! Audit log: one line for each call, with subject, tool, outcome and latency. Neither arguments nor results
//! are ever logged. The log format adds the trace id.
//!
//! Texts of clients are cut as in audit events, and a client that is denied again and again leaves as many
//! lines a second as it leaves events: it cannot push the lines of others out of the log.
//!
//! Levels keep the volume sane: denied calls and withheld results are warnings, calls through own tools are
//! info, as they are few; direct calls are debug, as there may be thousands a second.
//! `--log-level info,vmcp::audit=debug` shows them all.

use super::observer::CallObserver;
use super::record::{CallRecord, Outcome};
use super::refusal::Refusal;
use crate::access::policy::PolicyId;
use crate::telemetry::audit::{RefusalLines, clip};

/// Writes the audit lines, under the target `vmcp::audit`, by which they can be filtered and routed.
#[derive(Debug, Default)]
pub(super) struct AuditLog {
    denials: RefusalLines,
}

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
        let is_denied = record.outcome == Outcome::Denied;
        let left_out = if is_denied { self.denials.admit(&record.principal) } else { Some(0) };
        if let Some(left_out) = left_out {
            record.span.in_scope(|| write(record, left_out));
        }
    }

    /// Writes the line of a denied call: an unknown item is logged as a hidden one is.
    fn refused(&self, refusal: &Refusal<'_>) {
        let (Some(method), Some(called)) = (refusal.method, refusal.subject) else { return };
        let Some(left_out) = self.denials.admit(refusal.principal) else { return };
        tracing::warn!(
            target: "vmcp::audit",
            subject = refusal.principal.identity.subject(),
            called = &*clip(called),
            method = &*clip(method),
            policy = refusal.reason,
            outcome = Outcome::Denied.label(),
            left_out = shown(left_out),
            "call denied"
        );
    }
}

/// Returns the number of lines that were left out, if there are any.
fn shown(left_out: u64) -> Option<u64> {
    Some(left_out).filter(|left_out| *left_out > 0)
}

fn write(record: &CallRecord, left_out: u64) {
    let called = record.tool.as_ref().map(|tool| tool.name.as_str());
    let own = record.origin.own_tool();
    let method = clip(&record.method);
    let method = &*method;
    let item = called.or(record.subject.as_deref()).map(clip);
    let item = item.as_deref();
    if record.outcome == Outcome::Denied {
        let policy = record.policy.as_ref().map(PolicyId::as_str);
        line!(
            warn,
            record,
            "call denied",
            tool = own,
            called = item,
            method = method,
            policy = policy,
            left_out = shown(left_out)
        );
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
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::access::identity::Principal;
    use crate::telemetry::logs::tests::Lines;

    #[test]
    fn a_flood_of_long_names_leaves_few_short_lines_in_the_log() {
        let lines = Lines::default();
        let to = lines.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
        let (log, principal, name) = (AuditLog::default(), Principal::default(), "n".repeat(100_000));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for _ in 0..500 {
                log.refused(&Refusal {
                    principal: &principal,
                    reason: "unknown",
                    method: Some(&name),
                    subject: Some(&name),
                    session: None,
                    trace: None,
                });
            }
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let count = text.lines().count();
        // The second of the window may end between two refusals.
        assert!((20..=60).contains(&count), "{count}");
        assert!(text.lines().all(|line| line.len() < 4096 && line.contains("100000 bytes")), "{text:.4096}");
    }
}
