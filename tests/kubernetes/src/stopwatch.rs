//! [`Stopwatch`]: bounds of time, by times that the cluster itself records.
//!
//! A bound by the clock of the test would also count the waits of the test, and would fail on a machine that
//! runs ten other jobs. Two things keep a bound both honest and steady:
//!
//! - Begin and end are times that the API server or the operator wrote into objects: `creationTimestamp`,
//!   `managedFields`, `lastTransitionTime`, `acquireTime`. The time between two looks of the test does not
//!   count.
//! - The bound grows with the pace of the API server. While the watch runs, a probe writes to it, and the
//!   median of its round trips is compared with [`USUAL_TRIP`]. Everything that the operator does is such
//!   round trips. The growth ends at [`MAX_PACE`], so that a bound stays one.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::Namespace;

/// Usual round trip of a write to the API server on an idle machine, with room for a slow one.
const USUAL_TRIP: Duration = Duration::from_millis(25);
/// The most by which a bound grows.
const MAX_PACE: f64 = 6.0;
/// Interval of the probe's writes.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// Most objects hold times in whole seconds, cut off: begin and end may each be off by so much.
const RESOLUTION: Duration = Duration::from_secs(1);
/// The operator's name in `managedFields`.
const OPERATOR: &str = "vmcp-operator";

/// A running watch; its probe ends when it is dropped.
pub struct Stopwatch {
    began: Timestamp,
    trips: Arc<Mutex<Vec<Duration>>>,
    probe: JoinHandle<()>,
}

impl Stopwatch {
    /// Starts at the present time of the API server.
    pub async fn start(place: &Namespace) -> Self {
        let leases: Api<Lease> = place.api();
        let metadata = ObjectMeta { generate_name: Some("stopwatch-".to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata, ..Lease::default() };
        // Of a kind that no controller follows, so that the probe wakes nothing.
        let lease = leases.create(&PostParams::default(), &lease).await.expect("a Lease to write to");
        let began = lease.metadata.creation_timestamp.expect("a time").0;
        let name = lease.metadata.name.expect("a name");
        let trips = Arc::new(Mutex::new(Vec::new()));
        let probe = tokio::spawn(probe(leases, name, Arc::clone(&trips)));
        Self { began, trips, probe }
    }

    /// Fails the test if `what` took longer than `bound` at the pace of the API server. `end` is a time that
    /// the cluster has recorded.
    pub fn assert_within(&self, bound: Duration, what: &str, end: &Time) {
        self.assert_between(bound, what, &Time(self.began), end);
    }

    /// Does the same for a begin that the cluster has recorded later than the start of this watch.
    pub fn assert_between(&self, bound: Duration, what: &str, begin: &Time, end: &Time) {
        let took = end.0.duration_since(begin.0).as_secs_f64();
        let pace = pace(&self.trips.lock());
        let allowed = (bound.mul_f64(pace) + RESOLUTION).as_secs_f64();
        eprintln!("{what} after {took:.0} s; the bound is {bound:?}, the pace {pace:.1}");
        let earliest = -RESOLUTION.as_secs_f64();
        assert!(took >= earliest, "{what}: the recorded end lies {:.1} s before the begin", -took);
        assert!(
            took <= allowed,
            "{what} took {took:.1} s; {bound:?} at the pace {pace:.1} are {allowed:.1} s"
        );
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.probe.abort();
    }
}

/// Returns the time of the operator's last write of an object.
pub fn written_by_operator(metadata: &ObjectMeta) -> Option<Time> {
    let entries = metadata.managed_fields.iter().flatten();
    let ours = entries.filter(|entry| entry.manager.as_deref() == Some(OPERATOR));
    ours.filter_map(|entry| entry.time.clone()).max_by_key(|time| time.0)
}

async fn probe(leases: Api<Lease>, name: String, trips: Arc<Mutex<Vec<Duration>>>) {
    for count in 0_u32.. {
        let touched = json!({ "metadata": { "annotations": { "count": count.to_string() } } });
        let began = Instant::now();
        let written = leases.patch(&name, &PatchParams::default(), &Patch::Merge(touched)).await;
        // A failure says nothing of the pace: the namespace may be about to end.
        if written.is_ok() {
            trips.lock().push(began.elapsed());
        }
        sleep(PROBE_INTERVAL).await;
    }
}

/// Returns how much slower than usual the API server is by these round trips, from 1 to [`MAX_PACE`].
fn pace(trips: &[Duration]) -> f64 {
    let mut sorted = trips.to_vec();
    sorted.sort();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median.as_secs_f64() / USUAL_TRIP.as_secs_f64()).clamp(1.0, MAX_PACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_grows_with_the_pace_and_not_without_end() {
        let of = |milliseconds: &[u64]| {
            let trips: Vec<_> = milliseconds.iter().map(|trip| Duration::from_millis(*trip)).collect();
            pace(&trips)
        };
        let is = |pace: f64, wanted: f64| assert!((pace - wanted).abs() < 0.01, "{pace}");
        is(of(&[]), 1.0);
        is(of(&[3, 4, 5]), 1.0);
        // One slow write does not make a slow machine.
        is(of(&[5, 5, 4000]), 1.0);
        is(of(&[50, 50, 60]), 2.0);
        is(of(&[9000, 9000, 9000]), MAX_PACE);
    }

    #[test]
    fn the_last_write_of_the_operator_counts() {
        let entry =
            |manager: &str, time: &str| json!({ "manager": manager, "operation": "Apply", "time": time });
        let metadata = json!({ "managedFields": [
            entry(OPERATOR, "2026-01-01T00:00:01Z"),
            entry(OPERATOR, "2026-01-01T00:00:03Z"),
            entry("kubectl", "2026-01-01T00:00:09Z"),
        ] });
        let metadata: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
        let written = written_by_operator(&metadata).expect("a time").0;
        assert_eq!(written.to_string(), "2026-01-01T00:00:03Z");
        assert!(written_by_operator(&ObjectMeta::default()).is_none());
    }
}
