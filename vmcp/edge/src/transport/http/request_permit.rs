//! [`RequestPermit`]: counts one request, and the bytes it holds, at its principal.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use vmcp_engine::access::identity::PrincipalKey;

/// Parts of the table, each with its own lock, so that threads rarely meet.
const SHARDS: usize = 16;

/// Limits of one principal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrincipalQuota {
    /// Most requests at a time.
    pub(crate) requests: usize,
    /// Most bytes of requests and unread answers.
    pub(crate) bytes: usize,
}

/// A request beyond the quota of its principal; answered with HTTP 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuotaExceeded {
    #[error("too many requests at a time: at most {0} of one client (server.maxRequestsPerClient)")]
    Requests(usize),
    #[error("requests and unread answers of one client hold {0} bytes (server.maxBufferedBytesPerClient)")]
    Bytes(usize),
}

/// A part of the table. Each request looks itself up twice: foldhash is seeded, and several times faster than
/// SipHash.
type Shard = HashMap<PrincipalKey, Arc<Usage>, RandomState>;

/// Requests and bytes of each principal with a request under way. Principals without one take no memory.
#[derive(Debug)]
pub(crate) struct PrincipalUsage {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    /// Requests of all principals.
    in_flight: Gauge,
}

#[derive(Debug, Default)]
struct Usage {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

impl PrincipalUsage {
    /// Creates an empty table, which counts all requests in `in_flight`.
    pub(crate) fn new(in_flight: Gauge) -> Arc<Self> {
        Arc::new(Self { hasher: RandomState::default(), shards: Default::default(), in_flight })
    }

    /// Counts one more request, within `quota`.
    pub(crate) fn enter(
        self: &Arc<Self>,
        key: PrincipalKey,
        quota: PrincipalQuota,
    ) -> Result<RequestPermit, QuotaExceeded> {
        let mut shard = self.shard(&key).lock();
        let usage = shard.entry(key).or_default();
        if usage.requests.load(Ordering::Relaxed) >= quota.requests {
            return Err(QuotaExceeded::Requests(quota.requests));
        }
        if usage.bytes.load(Ordering::Relaxed) >= quota.bytes {
            return Err(QuotaExceeded::Bytes(quota.bytes));
        }
        usage.requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.inc();
        let (table, usage) = (Arc::clone(self), Arc::clone(usage));
        Ok(RequestPermit(Arc::new(Permit { table, key, usage, quota, bytes: AtomicUsize::new(0) })))
    }

    fn shard(&self, key: &PrincipalKey) -> &Mutex<Shard> {
        let [first, ..] = &self.shards;
        self.shards.get(self.hasher.hash_one(key) as usize % SHARDS).unwrap_or(first)
    }
}

/// One request under way. It ends when the last clone is dropped: those of the body's bytes, which the work
/// holds even after its client disconnected, and of the answer.
#[derive(Clone, Debug)]
pub(crate) struct RequestPermit(Arc<Permit>);

#[derive(Debug)]
struct Permit {
    table: Arc<PrincipalUsage>,
    key: PrincipalKey,
    usage: Arc<Usage>,
    quota: PrincipalQuota,
    /// Bytes counted for this request.
    bytes: AtomicUsize,
}

impl RequestPermit {
    /// Counts `more` bytes, unless the quota would be exceeded.
    pub(crate) fn try_hold(&self, more: usize) -> Result<(), QuotaExceeded> {
        let limit = self.0.quota.bytes;
        let within = |held: usize| held.checked_add(more).filter(|sum| *sum <= limit);
        let held = &self.0.usage.bytes;
        held.try_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|_| QuotaExceeded::Bytes(limit))?;
        self.0.bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Counts `more` bytes until the result is dropped, unless the quota would be exceeded.
    pub(crate) fn try_hold_extra(&self, more: usize) -> Result<ExtraBytes, QuotaExceeded> {
        self.try_hold(more)?;
        Ok(ExtraBytes { permit: self.clone(), bytes: more })
    }

    /// Counts `more` bytes that are in memory already, beyond the quota if need be.
    pub(crate) fn hold(&self, more: usize) {
        self.0.usage.bytes.fetch_add(more, Ordering::Relaxed);
        self.0.bytes.fetch_add(more, Ordering::Relaxed);
    }
}

/// Bytes that a request holds for a part of its time.
#[derive(Debug)]
pub(crate) struct ExtraBytes {
    permit: RequestPermit,
    bytes: usize,
}

impl Drop for ExtraBytes {
    fn drop(&mut self) {
        let Permit { usage, bytes, .. } = &*self.permit.0;
        usage.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.table.in_flight.dec();
        // Under the lock, so that no request enters between the last count and the removal.
        let mut shard = self.table.shard(&self.key).lock();
        self.usage.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
        if self.usage.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            shard.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_engine::access::identity::Principal;

    fn key(address: &str) -> PrincipalKey {
        Principal::at(address).key()
    }

    #[test]
    fn a_principal_has_its_quota_and_others_theirs() {
        let in_flight = Gauge::default();
        let (usage, quota) =
            (PrincipalUsage::new(in_flight.clone()), PrincipalQuota { requests: 2, bytes: 100 });
        let enter = |address| usage.enter(key(address), quota);
        let (one, two) = (enter("10.0.0.1").unwrap(), enter("10.0.0.1").unwrap());
        assert_eq!(enter("10.0.0.1").unwrap_err(), QuotaExceeded::Requests(2));
        let other = enter("10.0.0.2").unwrap();
        assert_eq!(in_flight.get(), 3);
        assert_eq!(one.try_hold(60), Ok(()));
        assert_eq!(two.try_hold(60), Err(QuotaExceeded::Bytes(100)));
        assert_eq!(other.try_hold(60), Ok(()));
        two.hold(60);
        let answer = one.clone();
        assert_eq!(one.try_hold_extra(1).unwrap_err(), QuotaExceeded::Bytes(100));
        drop((one, two));
        drop(answer.try_hold_extra(40));
        assert_eq!(answer.try_hold(50), Err(QuotaExceeded::Bytes(100)));
        drop((answer, other));
        assert_eq!(in_flight.get(), 0);
        assert!(usage.shards.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_principal() {
        assert_eq!(key("2001:db8::1"), key("2001:db8::2:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
    }
}
