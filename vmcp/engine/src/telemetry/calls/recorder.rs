//! [`CallRecorder`]: the guard that collects a [`CallRecord`] and hands it to the observers, once, when the
//! call has ended.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};
use vmcp_backend::Transmission;

use super::observers::CallObservers;
use super::record::{CallRecord, Outcome, RecordedArguments};

/// A record under construction. It observes nothing until it is settled or dropped, so it may be moved to
/// wherever the call ends: into the body of an answer that streams, for one. Dropped unsettled, the call
/// counts as cancelled: its caller went away.
#[derive(Debug)]
pub struct CallRecorder {
    /// Boxed, for the recorder is moved with the call through each of its layers.
    record: Box<CallRecord>,
    observers: Arc<CallObservers>,
    started: Instant,
    /// Begin of the request that the backend has not answered yet.
    asked: Option<Instant>,
}

impl CallRecorder {
    /// Starts the clock of a call. `record` says what is known of it.
    pub fn start(observers: &Arc<CallObservers>, record: CallRecord) -> CallRecorder {
        let (record, observers) = (Box::new(record), Arc::clone(observers));
        CallRecorder { record, observers, started: Instant::now(), asked: None }
    }

    /// The record so far.
    pub fn record(&mut self) -> &mut CallRecord {
        &mut self.record
    }

    /// Returns the record so far, to be read.
    pub fn seen(&self) -> &CallRecord {
        &self.record
    }

    /// Keeps the arguments, as JSON text, for the observers that ask for them.
    pub fn keep_arguments(&mut self, arguments: Option<&str>) {
        let limit = self.observers.argument_bytes();
        if limit > 0 {
            self.record.arguments = arguments.map(|text| RecordedArguments::new(text, limit));
        }
        if self.observers.digest_arguments() {
            self.record.arguments_digest = arguments.map(|text| Sha256::digest(text).into());
        }
    }

    /// Puts the begin of the call on record where that is needed; returns false if it could not be.
    pub async fn begins(&self) -> bool {
        self.observers.begin(&self.record).await
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
        // Read once, for all observers.
        self.record.ended = Some(SystemTime::now());
        self.record.took = self.started.elapsed();
        self.record.backend_took += self.asked.take().map_or(Duration::ZERO, |asked| asked.elapsed());
        self.observers.end(&mut self.record);
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use futures::stream;

    use super::*;
    use crate::access::identity::Principal;
    use crate::metrics::Metrics;
    use crate::telemetry::calls::Origin;
    use crate::testing::SeenCalls;

    /// An answer of three pieces that carries its recorder, as a body that streams does.
    fn body(observers: &Arc<CallObservers>) -> stream::BoxStream<'static, usize> {
        let mut recorder =
            CallRecorder::start(observers, CallRecord::begin(Principal::default(), None, Origin::Client));
        recorder.asks(10);
        stream::unfold((recorder, 3_usize), |(mut recorder, left)| async move {
            if left == 0 {
                recorder.answered(Transmission::Sent);
                recorder.settle(Outcome::Ok);
                return None;
            }
            recorder.receives(100);
            Some((100, (recorder, left - 1)))
        })
        .boxed()
    }

    #[tokio::test]
    async fn the_record_of_an_answer_that_streams_ends_with_its_body() {
        let seen = Arc::<SeenCalls>::default();
        let observers =
            Arc::new(CallObservers::new(&Arc::<Metrics>::default(), vec![Arc::clone(&seen) as _]));
        let mut whole = body(&observers);
        whole.next().await;
        assert!(seen.take().is_empty(), "it is under way");
        assert_eq!(whole.count().await, 2);
        let record = seen.take().remove(0);
        assert_eq!((record.outcome, record.bytes_in, record.bytes_out), (Outcome::Ok, 10, 300));

        let mut cut = body(&observers);
        cut.next().await;
        drop(cut);
        let record = seen.take().remove(0);
        assert_eq!((record.outcome, record.bytes_out), (Outcome::Cancelled, 100));
        assert_eq!(record.transmission, Transmission::Sent);
    }
}
