//! [`CallSpans`]: the ends of calls in their spans.

use super::call_metrics::error_type;
use super::observer::CallObserver;
use super::record::{CallRecord, Outcome};

/// Writes the end of each call into its span.
#[derive(Debug)]
pub(super) struct CallSpans;

impl CallObserver for CallSpans {
    fn observe(&self, record: &CallRecord) {
        if record.span.is_none() {
            return;
        }
        let failed = !matches!(record.outcome, Outcome::Ok | Outcome::Cancelled);
        record.span.fill(|open| {
            if open.is_call() {
                open.text("outcome", record.outcome.label());
                if failed {
                    open.fail("");
                }
            }
        });
        if !failed && record.error_code.is_none() {
            return;
        }
        let code = record.error_code.map(|code| code.to_string());
        // The words of a failed tool may be about its data.
        let said = record.error.as_deref().filter(|_| record.outcome == Outcome::RpcError);
        let description = said.unwrap_or(record.outcome.label()).to_owned();
        record.exchange.fill(|open| {
            // A span with `error.type` has the status of an error: a client that left makes none. It is the
            // code itself, of which metrics know a fixed set.
            let code_of_error = code.as_deref().filter(|_| record.outcome == Outcome::RpcError);
            open.optional("error.type", code_of_error.or(error_type(record)).filter(|_| failed));
            open.optional("rpc.response.status_code", code.as_deref());
            if failed {
                open.fail(description);
            }
        });
    }
}
