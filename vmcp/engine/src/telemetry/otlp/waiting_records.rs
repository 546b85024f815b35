//! [`WaitingRecords`]: the bound of the log records that wait for a collector. The SDK's queue bounds their
//! number alone, and one record may hold a megabyte of a client.

use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::logs::AnyValue;
use opentelemetry_sdk::logs::SdkLogRecord;

/// Records that wait for the collector; further ones are dropped and counted.
pub(in crate::telemetry) const MAX_WAITING_RECORDS: usize = 16_384;
/// Bytes that a record takes beside its texts, roughly.
const RECORD_BYTES: usize = 256;

/// Records in the queue, and in the one batch that is being sent.
#[derive(Debug)]
pub(in crate::telemetry) struct WaitingRecords {
    max_bytes: usize,
    records: AtomicUsize,
    bytes: AtomicUsize,
}

impl WaitingRecords {
    /// Counts up to [`MAX_WAITING_RECORDS`] and `max_bytes`.
    pub(in crate::telemetry) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, records: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Reserves the place of a record, or returns false.
    pub(in crate::telemetry) fn enter(&self, bytes: usize) -> bool {
        let records = self.records.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = records < MAX_WAITING_RECORDS && before.saturating_add(bytes) <= self.max_bytes;
        if !fits {
            self.leave(1, bytes);
        }
        fits
    }

    /// Gives back the places of records that were sent or dropped.
    pub(in crate::telemetry) fn leave(&self, records: usize, bytes: usize) {
        self.records.fetch_sub(records, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the bytes of a record; the same before and after the queue.
pub(in crate::telemetry) fn size_of(record: &SdkLogRecord) -> usize {
    let text = |value: &AnyValue| match value {
        AnyValue::String(text) => text.as_str().len(),
        AnyValue::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    let attributes = record.attributes_iter().map(|(key, value)| key.as_str().len() + text(value));
    RECORD_BYTES + record.body().map_or(0, text) + attributes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_records_are_bounded_by_number_and_by_bytes() {
        let max_bytes = 2 * MAX_WAITING_RECORDS;
        let waiting = WaitingRecords::new(max_bytes);
        assert!((0..MAX_WAITING_RECORDS).all(|_| waiting.enter(1)));
        assert!(!waiting.enter(1));
        waiting.leave(MAX_WAITING_RECORDS, MAX_WAITING_RECORDS);
        assert!(waiting.enter(max_bytes) && !waiting.enter(1));
        waiting.leave(1, max_bytes);
        assert!(waiting.enter(1));
    }
}
