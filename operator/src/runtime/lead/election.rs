//! Leader election by a Lease, as client-go does it: acquire, renew, give up, release.
//!
//! Clocks of other machines are not trusted: a Lease has expired once it did not change for its duration,
//! measured by this process.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::Leadership;
use crate::runtime::metrics::Metrics;
use vmcp_error_chain::error_chain;

/// The time after which a Lease that is not renewed is free for others.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long gives up, well before another replica may take over.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The interval at which the leader renews the Lease, and the others look at it.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// The longest that one call may take, so that two attempts to renew begin within [`RENEW_DEADLINE`].
const LEASE_CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// One candidate for a Lease.
pub(crate) struct Election<'a> {
    api: Api<Lease>,
    name: &'a str,
    identity: &'a str,
    leadership: Leadership,
    metrics: &'a Metrics,
}

/// Error of a call about the Lease.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no answer within {} s", LEASE_CALL_TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl LeaseError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }
}

impl<'a> Election<'a> {
    /// Makes a candidate. `identity` must differ between any two processes.
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        name: &'a str,
        identity: &'a str,
        leadership: Leadership,
        metrics: &'a Metrics,
    ) -> Self {
        Self { api: Api::namespaced(client, namespace), name, identity, leadership, metrics }
    }

    /// Waits until this replica holds the Lease.
    pub(crate) async fn win(&self) -> Lease {
        let mut seen: Option<(Lease, Instant)> = None;
        loop {
            match self.attempt(&mut seen).await {
                Ok(Some(lease)) => {
                    tracing::info!(identity = self.identity, "lease acquired, this replica leads");
                    self.metrics.leads(true);
                    return lease;
                }
                Ok(None) => {}
                Err(error) if error.is_conflict() => {
                    tracing::debug!("another replica acquired the lease first");
                }
                Err(error) => {
                    tracing::warn!(
                        lease = self.name,
                        error = error_chain(&error),
                        "cannot acquire the lease, trying again"
                    );
                }
            }
            tokio::time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Takes the Lease if it is free. `seen` is its last state, and since when this process has seen that.
    async fn attempt(&self, seen: &mut Option<(Lease, Instant)>) -> Result<Option<Lease>, LeaseError> {
        let Some(lease) = within(self.api.get_opt(self.name)).await? else {
            let meta = ObjectMeta { name: Some(self.name.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata: meta, spec: None };
            return self.take(lease).await.map(Some);
        };
        let now = Instant::now();
        let since = match seen {
            Some((known, since)) if *known == lease => *since,
            _ => {
                *seen = Some((lease.clone(), now));
                now
            }
        };
        if is_free(&lease, now.duration_since(since)) { self.take(lease).await.map(Some) } else { Ok(None) }
    }

    /// Writes this replica into the Lease. The resource version is the lock: of two that take it, one gets a
    /// conflict.
    async fn take(&self, mut lease: Lease) -> Result<Lease, LeaseError> {
        let now = MicroTime(Timestamp::now());
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.to_owned()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions.map_or(0, |count| count.saturating_add(1))),
            ..LeaseSpec::default()
        });
        self.write(lease).await
    }

    async fn write(&self, lease: Lease) -> Result<Lease, LeaseError> {
        // From before the call: other replicas measure from after it, so that this permission ends first.
        let began = Instant::now();
        let written = if lease.metadata.resource_version.is_some() {
            within(self.api.replace(self.name, &PostParams::default(), &lease)).await?
        } else {
            within(self.api.create(&PostParams::default(), &lease)).await?
        };
        self.leadership.extend(LEASE_DURATION.saturating_sub(began.elapsed()));
        Ok(written)
    }

    /// Renews the Lease until that failed for [`RENEW_DEADLINE`], or another replica holds it.
    pub(crate) async fn hold(&self, mut lease: Lease) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < RENEW_DEADLINE {
            tokio::time::sleep(RETRY_PERIOD).await;
            if let Some(spec) = &mut lease.spec {
                spec.renew_time = Some(MicroTime(Timestamp::now()));
            }
            match self.write(lease.clone()).await {
                Ok(written) => {
                    lease = written;
                    renewed = Instant::now();
                }
                Err(error) if error.is_conflict() => match within(self.api.get(self.name)).await {
                    Ok(found) if holder(&found) == Some(self.identity) => lease = found,
                    Ok(found) => {
                        tracing::error!(holder = holder(&found), "lease lost to another replica");
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(error = error_chain(&error), "cannot read the lease, trying again");
                    }
                },
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "cannot renew the lease, trying again");
                }
            }
        }
        self.leadership.end();
        self.metrics.leads(false);
    }

    /// Gives the Lease back, so that another replica need not wait until it expires.
    pub(crate) async fn release(&self) {
        self.leadership.end();
        self.metrics.leads(false);
        let released = async {
            let mut lease = within(self.api.get(self.name)).await?;
            if holder(&lease) == Some(self.identity)
                && let Some(spec) = &mut lease.spec
            {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
                within(self.api.replace(self.name, &PostParams::default(), &lease)).await?;
            }
            Ok::<(), LeaseError>(())
        };
        if let Err(error) = released.await {
            tracing::warn!(
                error = error_chain(&error),
                "cannot release the lease, the next leader waits until it expires"
            );
        }
    }
}

/// Makes a call with [`LEASE_CALL_TIMEOUT`].
async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    Ok(tokio::time::timeout(LEASE_CALL_TIMEOUT, call).await.map_err(|_| LeaseError::Timeout)??)
}

/// Returns the identity of the holder; `None` for the empty identity, which a release leaves.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Returns true if the Lease has no holder, or has not changed for longer than its duration.
fn is_free(lease: &Lease, unchanged: Duration) -> bool {
    let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    let duration =
        duration.and_then(|seconds| u64::try_from(seconds).ok()).map_or(LEASE_DURATION, Duration::from_secs);
    holder(lease).is_none() || unchanged > duration
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other replica looks every [`RETRY_PERIOD`]; all times of death and of first looks are tried.
    #[test]
    fn another_replica_leads_twenty_seconds_after_a_leader_was_killed() {
        let spec = LeaseSpec {
            holder_identity: Some("killed".into()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            ..LeaseSpec::default()
        };
        let lease = Lease { spec: Some(spec), ..Lease::default() };
        let within_a_period = || (0..20).map(|part| RETRY_PERIOD * part / 20);
        let mut longest = Duration::ZERO;
        // Times after the last renewal: the death of the leader, and the other's first look.
        for death in within_a_period() {
            for first_look in within_a_period() {
                let looks = (0..).map(|number| first_look + RETRY_PERIOD * number);
                let taken = looks
                    .filter(|look| *look >= death)
                    .find(|look| is_free(&lease, (*look).checked_sub(first_look).unwrap()));
                longest = longest.max(taken.expect("it looks for ever").checked_sub(death).unwrap());
            }
        }
        assert!(longest > LEASE_DURATION && longest <= Duration::from_secs(20), "{longest:?}");
    }

    #[test]
    fn a_lease_is_free_when_nobody_renews_it() {
        let mut lease = Lease::default();
        assert!(is_free(&lease, Duration::ZERO));
        lease.spec = Some(LeaseSpec {
            holder_identity: Some("other".into()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        });
        assert!(!is_free(&lease, Duration::from_secs(14)));
        assert!(is_free(&lease, Duration::from_secs(16)));
        lease.spec.as_mut().expect("set").holder_identity = Some(String::new());
        assert!(is_free(&lease, Duration::ZERO), "released");
    }
}
