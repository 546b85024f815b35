//! Exemplars: one trace for each bucket of a histogram.

use opentelemetry::trace::TraceContextExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Labels of an exemplar; together within the 128 characters that OpenMetrics allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TraceLabels {
    /// Id of the trace: 32 hexadecimal digits.
    pub trace_id: String,
    /// Id of the span: 16 hexadecimal digits.
    pub span_id: String,
}

impl TraceLabels {
    /// Returns the ids of a span that is exported; `None` for a span that no collector will have.
    pub fn of_exported(span: &Span) -> Option<TraceLabels> {
        if span.is_disabled() {
            return None;
        }
        let context = span.context();
        let of_span = context.span().span_context().clone();
        of_span.is_sampled().then(|| TraceLabels {
            trace_id: of_span.trace_id().to_string(),
            span_id: of_span.span_id().to_string(),
        })
    }
}
