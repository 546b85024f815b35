//! The running backends, and the plan that leads from one configuration to the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::AbortOnDropHandle;
use vmcp_access::outgoing::BackendTokens;
use vmcp_backend::{
    Backend, BackendSettings, ByteBudget, Downstream, HttpClient, OrphanGuard, SessionListingCount, breaker,
};
use vmcp_config::{Config, Credentials};
use vmcp_model::discovered::Discovered;

use super::snapshot::declarations::BackendListings;
use super::snapshot::definition_changes::ChangedListing;
use crate::access::outgoing::{self, TokenFactory};
use crate::folders;
use crate::optim::own_mark;
use crate::telemetry::connections::ObservedConnections;

/// Delay before a replaced backend stops: requests that loaded the snapshot just before still reach it.
const RETIRE_DELAY: Duration = Duration::from_secs(1);

/// All enabled backends, running.
pub(super) struct Fleet {
    running: BTreeMap<Arc<str>, RunningBackend>,
    /// Notified when a backend has another listing than before.
    news: Arc<Notify>,
    http: HttpClient,
    token_factory: TokenFactory,
    byte_budget: ByteBudget,
    /// Receives messages that backends send outside of requests.
    downstream: Option<Arc<dyn Downstream>>,
    /// Counts failed attempts to connect, and sessions; tells of states.
    observer: Arc<ObservedConnections>,
    /// [`super::Options::bridge`].
    bridge: bool,
    orphan_guard: Option<Arc<OrphanGuard>>,
    /// [`super::Options::served`].
    served: Option<Arc<str>>,
    /// Slots for programs that are being started, shared by all backends.
    starts: Arc<Semaphore>,
    session_listings: SessionListingCount,
}

struct RunningBackend {
    spec: vmcp_config::Backend,
    backend: Backend,
    tokens: Option<Arc<BackendTokens>>,
    /// The listing that was last compared with the store.
    recorded: Option<Arc<Discovered>>,
    _follower: AbortOnDropHandle<()>,
}

/// Backends that another configuration added, changed and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BackendChanges {
    /// Backends that were started.
    pub added: Vec<Arc<str>>,
    /// Backends that were restarted, because their configuration changed.
    pub changed: Vec<Arc<str>>,
    /// Backends that were stopped.
    pub removed: Vec<Arc<str>>,
    /// Number of backends that keep running unchanged.
    pub unchanged: usize,
}

/// The work that is left after [`Fleet::change`].
#[derive(Default)]
pub(super) struct FleetPlan {
    pub(super) applied: BackendChanges,
    /// Backends to start, with their last known listing.
    pub(super) start: Vec<(vmcp_config::Backend, Option<Arc<Discovered>>)>,
    /// Backends to stop once no snapshot names them.
    pub(super) stop: Vec<Backend>,
}

impl Fleet {
    /// No backends yet.
    pub(super) fn new(
        downstream: Option<Arc<dyn Downstream>>,
        observer: Arc<ObservedConnections>,
        bridge: bool,
        byte_budget: ByteBudget,
        orphan_guard: Option<Arc<OrphanGuard>>,
        served: Option<Arc<str>>,
        token_factory: TokenFactory,
    ) -> Fleet {
        let http = HttpClient::default();
        let starts = BackendSettings::default().starts;
        Fleet {
            running: BTreeMap::new(),
            news: Arc::default(),
            http,
            token_factory,
            byte_budget,
            downstream,
            observer,
            bridge,
            orphan_guard,
            served,
            starts,
            session_listings: SessionListingCount::default(),
        }
    }

    /// Returns the count of sessions that see definitions of their own at any backend.
    pub(super) fn session_listings(&self) -> SessionListingCount {
        self.session_listings.clone()
    }

    /// Lists the backends again that get tokens of upstream providers, since there is one to list with.
    pub(super) fn refresh_injected(&self) {
        let injected =
            |running: &&RunningBackend| matches!(running.spec.credentials, Credentials::UpstreamInject(_));
        for running in self.running.values().filter(injected) {
            running.backend.refresh();
        }
    }

    /// Notified when a backend has another listing than before.
    pub(super) fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.news)
    }

    /// Removes the backends that another configuration does not keep as they are, and plans their
    /// replacement.
    pub(super) fn change(&mut self, before: &Config, after: &Config) -> FleetPlan {
        let same_idle_timeout = before.proxy.idle_timeout == after.proxy.idle_timeout;
        let mut plan = FleetPlan::default();
        let enabled = after.backends.iter().filter(|spec| spec.enabled);
        let mut wanted: BTreeMap<_, _> = enabled.map(|spec| (Arc::clone(&spec.name), spec.clone())).collect();
        for (name, old) in std::mem::take(&mut self.running) {
            match wanted.remove(&name) {
                Some(new)
                    if same_connection(&new, &old.spec) && (same_idle_timeout || !new.starts_process()) =>
                {
                    plan.applied.unchanged += 1;
                    let credentials = old.tokens.as_ref().map(outgoing::of_vmcp);
                    old.backend.reconfigure(&new, BackendSettings { credentials, ..self.settings(after) });
                    self.running.insert(name, RunningBackend { spec: new, ..old });
                    continue;
                }
                Some(new) => {
                    // Where only a token or a limit changed, the listing stays valid until the backend sends
                    // another one.
                    let same = new.fingerprint() == old.spec.fingerprint();
                    let offered = old.backend.discovered().borrow().clone().filter(|_| same);
                    plan.start.push((new, offered));
                    plan.applied.changed.push(name);
                }
                None => plan.applied.removed.push(name),
            }
            plan.stop.push(old.backend);
        }
        plan.applied.added = wanted.keys().cloned().collect();
        plan.start.extend(wanted.into_values().map(|spec| (spec, None)));
        plan
    }

    /// Starts a backend.
    pub(super) fn start(
        &mut self,
        spec: vmcp_config::Backend,
        config: &Config,
        cached: Option<Arc<Discovered>>,
    ) {
        let tokens = self.token_factory.tokens(&spec);
        let settings =
            BackendSettings { credentials: tokens.as_ref().map(outgoing::of_vmcp), ..self.settings(config) };
        let backend = Backend::start(spec.clone(), settings, cached.clone());
        let (mut discovered, news) = (backend.discovered(), self.news());
        // The cached listing is in the snapshot that follows; only later ones are news.
        let follow = async move {
            while discovered.changed().await.is_ok() {
                news.notify_one();
            }
        };
        let follower = AbortOnDropHandle::new(tokio::spawn(follow));
        let name = Arc::clone(&spec.name);
        let running = RunningBackend { spec, backend, tokens, recorded: cached, _follower: follower };
        self.running.insert(name, running);
    }

    /// Returns the handles by name.
    pub(super) fn handles(&self) -> BTreeMap<Arc<str>, Backend> {
        self.running.iter().map(|(name, running)| (Arc::clone(name), running.backend.clone())).collect()
    }

    /// Returns the access tokens for backends by name.
    pub(super) fn tokens(&self) -> BTreeMap<Arc<str>, Arc<BackendTokens>> {
        let tokens = |(name, running): (&Arc<str>, &RunningBackend)| {
            Some((Arc::clone(name), Arc::clone(running.tokens.as_ref()?)))
        };
        self.running.iter().filter_map(tokens).collect()
    }

    /// Returns the present listing of each backend that has one.
    pub(super) fn listings(&self) -> BackendListings {
        let offered = |running: &RunningBackend| running.backend.discovered().borrow().clone();
        self.running
            .iter()
            .filter_map(|(name, running)| Some((Arc::clone(name), offered(running)?)))
            .collect()
    }

    /// Listings that changed since this was last called; the caller compares them with the store.
    pub(super) fn unrecorded(&mut self, listings: &BackendListings) -> Vec<ChangedListing> {
        let mut changed = Vec::new();
        for (name, discovered) in listings {
            let Some(running) = self.running.get_mut(name) else { continue };
            if running.recorded.as_ref().is_some_and(|recorded| Arc::ptr_eq(recorded, discovered)) {
                continue;
            }
            running.recorded = Some(Arc::clone(discovered));
            changed.push(ChangedListing {
                backend: Arc::clone(name),
                fingerprint: running.spec.fingerprint(),
                discovered: Arc::clone(discovered),
            });
        }
        changed
    }

    /// Stops all backends. Calls in flight have `grace` to end.
    pub(super) async fn stop_all(&mut self, grace: Duration) {
        let running = std::mem::take(&mut self.running);
        let stopping = join_all(running.into_values().map(|running| running.backend.stop()));
        // Backends that are not done by then are cut off when their handles are dropped.
        if tokio::time::timeout(grace, stopping).await.is_err() && !grace.is_zero() {
            tracing::warn!("some backends did not stop in time and are cut off");
        }
    }

    fn settings(&self, config: &Config) -> BackendSettings {
        let (proxy, breaker) = (&config.proxy, &config.operational.circuit_breaker);
        let mut settings = BackendSettings {
            connection_timeout: proxy.connection_timeout,
            max_connection_retries: proxy.max_connection_retries,
            lazy_connect: proxy.lazy_connect,
            breaker: breaker::BreakerSettings {
                // A threshold of 0 disables the circuit breaker.
                failure_threshold: if breaker.enabled { breaker.failure_threshold } else { 0 },
                reset_timeout: breaker.timeout,
            },
            refresh_interval: proxy.refresh_interval,
            idle_timeout: proxy.idle_timeout,
            max_call: proxy.max_tool_timeout,
            // A backend that a reload replaces finishes its calls, however long they may take.
            drain_timeout: proxy.max_tool_timeout,
            fail_fast: self.bridge,
            in_our_place: self.bridge,
            own_mark: config.optimizer.enabled.then(|| own_mark::mark(config).into()),
            served: self.served.clone(),
            orphan_guard: self.orphan_guard.clone(),
            pinned_programs: folders::pinned_programs().filter(|_| proxy.pin_packages && !self.bridge),
            http: self.http.clone(),
            byte_budget: self.byte_budget.clone(),
            starts: Arc::clone(&self.starts),
            session_listings: self.session_listings.clone(),
            connection_observer: Arc::clone(&self.observer) as _,
            ..BackendSettings::default()
        };
        if let Some(downstream) = &self.downstream {
            settings.downstream = Arc::clone(downstream);
        }
        settings
    }
}

/// Stops backends that no snapshot names any more, in the background; their calls in flight finish.
pub(super) fn retire(backends: Vec<Backend>) {
    if backends.is_empty() {
        return;
    }
    tokio::spawn(async move {
        tokio::time::sleep(RETIRE_DELAY).await;
        join_all(backends.into_iter().map(Backend::stop)).await;
    });
}

/// True if a backend can keep running under the other entry: limits of time are passed with each call or
/// follow a reload, as the values of headers do.
fn same_connection(one: &vmcp_config::Backend, other: &vmcp_config::Backend) -> bool {
    let mut same = vmcp_config::Backend {
        timeout: one.timeout,
        connection_timeout: one.connection_timeout,
        preconnect: one.preconnect,
        ..other.clone()
    };
    if let (Some(of_one), Some(of_other)) = (one.transport.headers(), same.transport.headers_mut())
        && of_one.keys().eq(of_other.keys())
    {
        of_other.clone_from(of_one);
    }
    *one == same
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn a_replaced_backend_has_the_time_that_its_calls_may_take() {
        let config = config("proxy: { maxToolTimeout: 15m }");
        let fleet = Fleet::new(
            None,
            Arc::default(),
            false,
            ByteBudget::default(),
            None,
            None,
            TokenFactory::default(),
        );
        assert_eq!(fleet.settings(&config).drain_timeout, Duration::from_mins(15));
    }
}
