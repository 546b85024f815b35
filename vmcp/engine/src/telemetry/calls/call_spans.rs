//! [`CallSpans`]: the ends of calls in their spans.

use opentelemetry::trace::Status;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::call_metrics::error_type;
use super::observer::CallObserver;
use super::record::{CallRecord, Outcome};

/// Writes the end of each call into its span.
#[derive(Debug)]
pub(super) struct CallSpans;

impl CallObserver for CallSpans {
    fn observe(&self, record: &CallRecord) {
        if record.span.is_disabled() {
            return;
        }
        // Only spans of calls have these fields. `Span::record` would tell the layers of the log, too.
        if record.span.has_field("outcome") {
            record.span.set_attribute("outcome", record.outcome.label());
        }
        let failed = !matches!(record.outcome, Outcome::Ok | Outcome::Cancelled);
        if failed && record.span.has_field("otel.status_code") {
            record.span.set_status(Status::error(""));
        }
        // A span with `error.type` has the status of an error: a client that left makes none.
        if let Some(kind) = error_type(record).filter(|_| failed) {
            record.exchange.set_attribute("error.type", kind);
        }
        if let Some(code) = record.error_code {
            record.exchange.set_attribute("rpc.response.status_code", code.to_string());
        }
        if failed {
            // The words of a failed tool may be about its data.
            let said = record.error.as_deref().filter(|_| record.outcome == Outcome::RpcError);
            let description = said.unwrap_or(record.outcome.label()).to_owned().into();
            record.exchange.set_status(Status::Error { description });
        }
    }
}
