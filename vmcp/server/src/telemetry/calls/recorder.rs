//! [`CallRecorder`]: the guard that collects a [`CallRecord`] and hands it to the observers, once, when the
//! call has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmcp_backend::Transmission;

use super::observers::CallObservers;
use super::record::{CallRecord, Outcome};

/// A record under construction. It observes nothing until it is settled or dropped, so it may be moved to
/// wherever the call ends: into the body of an answer that streams, for one. Dropped unsettled, the call
/// counts as cancelled: its caller went away.
#[derive(Debug)]
pub struct CallRecorder {
    record: CallRecord,
    observers: Arc<CallObservers>,
    started: Instant,
    /// Begin of the request that the backend has not answered yet.
    asked: Option<Instant>,
}

impl CallRecorder {
    /// Starts the clock of a call. `record` says what is known of it.
    pub fn start(observers: &Arc<CallObservers>, record: CallRecord) -> CallRecorder {
        CallRecorder { record, observers: Arc::clone(observers), started: Instant::now(), asked: None }
    }

    /// The record so far.
    pub fn record(&mut self) -> &mut CallRecord {
        &mut self.record
    }

    /// Records that a request of `bytes` goes to the backend.
    pub fn asks(&mut self, bytes: usize) {
        self.record.requests += 1;
        self.record.bytes_in += bytes as u64;
        if self.record.transmission == Transmission::NotSent {
            self.record.transmission = Transmission::Unknown;
        }
        self.asked = Some(Instant::now());
    }

    /// Records that `bytes` of the backend's answer have arrived.
    pub fn receives(&mut self, bytes: usize) {
        self.record.bytes_out += bytes as u64;
        self.record.transmission = Transmission::Sent;
    }

    /// Records that the backend has answered its request, or will not, and how far the request came.
    pub fn answered(&mut self, transmission: Transmission) {
        self.record.backend_took += self.asked.take().map_or(Duration::ZERO, |asked| asked.elapsed());
        // An earlier round was executed, whatever becomes of a later one.
        if self.record.requests == 1 || transmission != Transmission::NotSent {
            self.record.transmission = transmission;
        }
    }

    /// Ends the call.
    pub fn settle(mut self, outcome: Outcome) {
        self.record.outcome = outcome;
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        self.record.took = self.started.elapsed();
        self.record.backend_took += self.asked.take().map_or(Duration::ZERO, |asked| asked.elapsed());
        self.observers.observe(&self.record);
    }
}
