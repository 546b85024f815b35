//! Exemplars: one trace for each bucket of a histogram.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

/// Labels of an exemplar; together within the 128 characters that OpenMetrics allows.
/// Every call makes two, and few are read: only a reader turns them into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceLabels {
    /// Id of the trace, shown as 32 hexadecimal digits.
    pub trace_id: [u8; 16],
    /// Id of the span, shown as 16 hexadecimal digits.
    pub span_id: [u8; 8],
}

impl EncodeLabelSet for TraceLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let labels = [("trace_id", hex::encode(self.trace_id)), ("span_id", hex::encode(self.span_id))];
        EncodeLabelSet::encode(&labels, encoder)
    }
}
