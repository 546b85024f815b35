//! Leader election by a Lease.
//!
//! Clocks of other machines are not trusted: a lease has expired when it did not change for its duration, as seen from here.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::{Leadership, Metrics, chain};

/// How long a lease lives without being renewed.
const LEASE: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long gives up, well before somebody else may take over.
const GIVE_UP: Duration = Duration::from_secs(10);
/// How often the lease is renewed, or looked at.
const PERIOD: Duration = Duration::from_secs(2);
/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(4);

/// One candidate.
pub struct Election<'a> {
    api: Api<Lease>,
    name: &'a str,
    identity: &'a str,
    leadership: Leadership,
    metrics: &'a Metrics,
}

/// A call that was not answered in time is like one that failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Deadline,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl LeaseError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }
}

impl<'a> Election<'a> {
    /// `identity` must differ between any two processes.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &'a str,
        identity: &'a str,
        leadership: Leadership,
        metrics: &'a Metrics,
    ) -> Self {
        Self { api: Api::namespaced(client, namespace), name, identity, leadership, metrics }
    }

    /// Waits until the lease is ours.
    pub async fn win(&self) -> Lease {
        let mut seen: Option<(Lease, Instant)> = None;
        loop {
            match self.attempt(&mut seen).await {
                Ok(Some(lease)) => {
                    tracing::info!(identity = self.identity, "this replica leads");
                    self.metrics.leads(true);
                    return lease;
                }
                Ok(None) => {}
                Err(error) if error.is_conflict() => tracing::debug!("another replica was quicker"),
                Err(error) => {
                    tracing::warn!(lease = self.name, error = %chain(&error), "the lease cannot be read or taken");
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

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

    async fn take(&self, mut lease: Lease) -> Result<Lease, LeaseError> {
        let now = MicroTime(Timestamp::now());
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.to_owned()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions.map_or(0, |count| count.saturating_add(1))),
            ..LeaseSpec::default()
        });
        self.write(lease).await
    }

    async fn write(&self, lease: Lease) -> Result<Lease, LeaseError> {
        // Counted from before the call: the others count from after it.
        let began = Instant::now();
        let written = if lease.metadata.resource_version.is_some() {
            within(self.api.replace(self.name, &PostParams::default(), &lease)).await?
        } else {
            within(self.api.create(&PostParams::default(), &lease)).await?
        };
        self.leadership.extend(LEASE.saturating_sub(began.elapsed()));
        Ok(written)
    }

    /// Renews the lease until that is impossible, or somebody else has it.
    pub async fn hold(&self, mut lease: Lease) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < GIVE_UP {
            tokio::time::sleep(PERIOD).await;
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
                        tracing::error!(holder = holder(&found), "another replica has the lease");
                        break;
                    }
                    Err(error) => tracing::warn!(error = %chain(&error), "the lease cannot be read"),
                },
                Err(error) => tracing::warn!(error = %chain(&error), "the lease cannot be renewed"),
            }
        }
        self.leadership.end();
        self.metrics.leads(false);
    }

    /// Gives the lease back, so that another replica need not wait for its end.
    pub async fn release(&self) {
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
            tracing::warn!(error = %chain(&error), "the lease could not be released; the next leader waits for its end");
        }
    }
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    Ok(tokio::time::timeout(DEADLINE, call).await.map_err(|_| LeaseError::Deadline)??)
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Whether nobody holds a lease that has not changed for so long.
fn is_free(lease: &Lease, unchanged: Duration) -> bool {
    let duration = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
    let duration =
        duration.and_then(|seconds| u64::try_from(seconds).ok()).map_or(LEASE, Duration::from_secs);
    holder(lease).is_none() || unchanged > duration
}

#[cfg(test)]
mod tests {
    use super::*;

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
