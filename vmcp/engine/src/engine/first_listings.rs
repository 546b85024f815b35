//! Waits of a fresh start: first requests wait for backends that are starting, for as long as that makes a
//! difference. A backend that hangs delays them by little: the backends that answered set the measure.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use futures::future::join_all;
use tokio::time::timeout;
use vmcp_backend::{Backend, BackendState, BackendStatus};
use vmcp_config::Transport;

use super::snapshot::Snapshot;
use super::{Engine, Inner};

/// Interval at which a wait polls the states of backends. A snapshot with another listing ends it at once.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time after the start that a server on this machine or network gets, however quick the others are.
const MIN_NEAR: Duration = Duration::from_millis(80);
/// Time after the start that a server behind the internet gets: a TLS handshake and three round trips.
const MIN_FAR: Duration = Duration::from_secs(1);
/// Servers of a kind get this many times the time of the slowest of them that was listed.
const FACTOR: u32 = 2;

/// Time for which the first legacy client waits until servers have said what they offer to it.
const MAX_LEGACY_WAIT: Duration = Duration::from_millis(500);

/// Kind of a backend, by the time that its first listing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A URL on this machine or in a private network.
    Near,
    /// Any other URL.
    Far,
    /// A program, which may be downloaded first.
    Program,
}

/// State of a backend's first listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstListing {
    /// Listed so long after the start.
    After(Duration),
    /// Not listed yet.
    Pending,
    /// Served from saved definitions, or failed.
    Settled,
}

/// Returns the time after the start until which a list waits, at most `cap`: zero if no backend is pending.
fn wait_limit(backends: &[(Kind, FirstListing)], cap: Duration) -> Duration {
    let slowest = |wanted: &dyn Fn(Kind) -> bool| {
        let listed = backends.iter().filter(|(kind, _)| wanted(*kind));
        let after = listed.filter_map(|(_, listing)| match listing {
            FirstListing::After(after) => Some(*after),
            FirstListing::Pending | FirstListing::Settled => None,
        });
        after.max()
    };
    let any = slowest(&|_| true);
    let limit = |kind: Kind| {
        let least = match kind {
            Kind::Program => return cap,
            Kind::Near => MIN_NEAR,
            Kind::Far => MIN_FAR,
        };
        // Before the first listing an answer would be empty: the wait delays no other result.
        let Some(any) = any else { return cap };
        slowest(&|other| other == kind).map_or(any, |alike| alike * FACTOR).max(least)
    };
    let pending = backends.iter().filter(|(_, listing)| *listing == FirstListing::Pending);
    pending.map(|(kind, _)| limit(*kind)).max().unwrap_or_default().min(cap)
}

/// Returns the kind of a backend with this transport.
fn kind(transport: &Transport) -> Kind {
    let Some(url) = transport.url() else { return Kind::Program };
    if is_near(url.host_str().unwrap_or_default()) { Kind::Near } else { Kind::Far }
}

/// True for hosts of this machine and of private networks, and for names that no public DNS has.
fn is_near(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
        Err(_) => {
            let host = host.trim_end_matches('.');
            let is_private = |suffix| host.ends_with(suffix);
            !host.contains('.') || [".localhost", ".local", ".internal", ".svc"].into_iter().any(is_private)
        }
    }
}

/// True if the backend failed to connect, or connected but could not be listed: waiting longer is pointless.
pub(super) fn has_failed(status: &BackendStatus) -> bool {
    status.state == BackendState::Failed
        || (status.state == BackendState::Connected && status.last_error.is_some())
}

/// True if a tool called `tool` may be of the backend: listed names begin with its backend's by default.
fn may_have(backend: &str, tool: &str) -> bool {
    let same = |(one, other): (u8, u8)| {
        one.eq_ignore_ascii_case(&other) || (!one.is_ascii_alphanumeric() && !other.is_ascii_alphanumeric())
    };
    tool.len() > backend.len() && backend.bytes().zip(tool.bytes()).all(same)
}

impl Engine {
    /// True once every backend has settled after the start, or `proxy.firstListWait` is over.
    pub fn has_started(&self) -> bool {
        let Inner { started, has_settled, .. } = &*self.0;
        if has_settled.load(Ordering::Relaxed) {
            return true;
        }
        let is_over = started.elapsed() >= self.snapshot().config.proxy.first_list_wait;
        if is_over {
            has_settled.store(true, Ordering::Relaxed);
        }
        is_over
    }

    /// Waits for backends that are starting, as [`wait_limit`] says. Returns true if it waited: the snapshot
    /// may be another one now.
    pub async fn wait_for_first_listings(&self) -> bool {
        self.wait_until(|snapshot, cap| {
            let started = self.0.started.elapsed();
            let listing =
                |backend: &Backend| (kind(&backend.spec().transport), first_listing(backend, started));
            wait_limit(&snapshot.backends.values().map(listing).collect::<Vec<_>>(), cap)
        })
        .await
    }

    /// Waits for the backends that may have an item called `name`; for all of them as a list does, if its
    /// name says nothing. Returns true if it waited.
    pub async fn wait_for_backend_of(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        let is_named = |backend: &str| may_have(backend, name) || backend.eq_ignore_ascii_case(name);
        if !snapshot.backends.keys().any(|backend| is_named(backend)) {
            return self.wait_for_first_listings().await;
        }
        self.wait_until(|snapshot, cap| {
            let mut named = snapshot.backends.iter().filter(|(backend, _)| is_named(backend));
            if named.any(|(_, backend)| is_pending(backend)) { cap } else { Duration::ZERO }
        })
        .await
    }

    /// Waits until the time after the start that `limit` returns for the snapshot and the longest wait.
    async fn wait_until(&self, limit: impl Fn(&Snapshot, Duration) -> Duration) -> bool {
        if self.has_started() {
            return false;
        }
        let started = self.0.started;
        let mut published = self.snapshots();
        loop {
            // Before the snapshot is read: a later one is news.
            published.mark_unchanged();
            let snapshot = self.snapshot();
            let cap = snapshot.config.proxy.first_list_wait;
            if started.elapsed() >= cap || self.is_settled() {
                self.0.has_settled.store(true, Ordering::Relaxed);
                return true;
            }
            let is_shown = |backend: &Backend| is_shown(&snapshot, backend);
            if started.elapsed() >= limit(&snapshot, cap) && snapshot.backends.values().all(is_shown) {
                return true;
            }
            let pause = POLL_INTERVAL.min((started + cap).saturating_duration_since(Instant::now()));
            let _ = timeout(pause, published.changed()).await;
        }
    }

    /// Learns what servers of both eras offer to legacy clients, for the first of these. Waits for at most
    /// [`MAX_LEGACY_WAIT`]; then the clients that come later are told.
    pub async fn learn_legacy_capabilities(&self) {
        let snapshot = self.snapshot();
        let asked = snapshot.backends.values().filter_map(|backend| {
            let learned = backend.learn_legacy_capabilities()?;
            // Spawned: a server that is slow to answer is asked once.
            Some((backend.clone(), tokio::spawn(learned)))
        });
        let (backends, learned): (Vec<_>, Vec<_>) = asked.unzip();
        if backends.is_empty() {
            return;
        }
        let mut published = self.snapshots();
        let learned = async {
            join_all(learned).await;
            loop {
                published.mark_unchanged();
                if backends.iter().all(|backend| is_shown(&self.snapshot(), backend)) {
                    return;
                }
                let _ = timeout(POLL_INTERVAL, published.changed()).await;
            }
        };
        let _ = timeout(MAX_LEGACY_WAIT, learned).await;
    }

    /// True if each backend was listed, and the snapshot shows it, or has failed.
    pub(super) fn is_settled(&self) -> bool {
        let snapshot = self.snapshot();
        let is_settled = |backend: &Backend| !is_pending(backend) && is_shown(&snapshot, backend);
        snapshot.backends.values().all(is_settled)
    }
}

/// True if the backend has no definitions yet, and has not failed.
fn is_pending(backend: &Backend) -> bool {
    backend.discovered().borrow().is_none() && !has_failed(&backend.status())
}

/// Returns the state of the backend's first listing in a process that started `uptime` ago.
fn first_listing(backend: &Backend, uptime: Duration) -> FirstListing {
    if is_pending(backend) {
        return FirstListing::Pending;
    }
    let Some(listed_at) = backend.status().last_refresh else { return FirstListing::Settled };
    let age = SystemTime::now().duration_since(listed_at).unwrap_or_default();
    FirstListing::After(uptime.saturating_sub(age))
}

/// True if the snapshot shows what the backend listed last.
fn is_shown(snapshot: &Snapshot, backend: &Backend) -> bool {
    let offered = backend.discovered().borrow().clone();
    let is_shown = |offered| {
        let of_backend = |(name, seen): &(Arc<str>, _)| name == backend.name() && Arc::ptr_eq(seen, &offered);
        snapshot.listings.iter().any(of_backend)
    };
    offered.is_none_or(is_shown)
}

#[cfg(test)]
mod tests {
    use super::FirstListing::{After, Pending, Settled};
    use super::Kind::{Far, Near, Program};
    use super::*;

    const CAP: Duration = Duration::from_secs(2);

    fn after(millis: u64) -> FirstListing {
        After(Duration::from_millis(millis))
    }

    fn limit(backends: &[(Kind, FirstListing)]) -> u128 {
        wait_limit(backends, CAP).as_millis()
    }

    #[test]
    fn a_list_waits_for_nothing_that_has_settled() {
        assert_eq!(limit(&[]), 0);
        assert_eq!(limit(&[(Near, after(20)), (Program, Settled), (Far, after(900))]), 0);
    }

    #[test]
    fn those_that_answered_set_the_measure_for_one_that_hangs() {
        assert_eq!(limit(&[(Near, after(20)), (Near, Pending)]), 80, "the least");
        assert_eq!(limit(&[(Near, after(20)), (Near, after(300)), (Near, Pending)]), 600);
        assert_eq!(limit(&[(Near, after(1500)), (Near, Pending)]), 2000, "the cap");
        assert_eq!(limit(&[(Far, after(700)), (Far, Pending)]), 1400);
        assert_eq!(limit(&[(Near, after(20)), (Far, Pending)]), 1000, "a server far away");
        assert_eq!(limit(&[(Program, after(400)), (Near, Pending)]), 400, "no longer than another kind took");
    }

    #[test]
    fn programs_and_the_only_ones_keep_their_chance() {
        assert_eq!(limit(&[(Near, after(20)), (Program, Pending), (Near, Pending)]), 2000);
        assert_eq!(limit(&[(Near, Pending), (Far, Pending)]), 2000, "an answer would hold nothing");
        assert_eq!(wait_limit(&[(Program, Pending)], Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn hosts_are_near_on_this_machine_and_in_private_networks() {
        for host in [
            "localhost",
            "127.0.0.1",
            "[::1]",
            "10.1.2.3",
            "192.168.0.9",
            "[fd00::1]",
            "mcp",
            "time.tools.svc",
            "time.tools.svc.cluster.local",
            "host.docker.internal",
            "box.local.",
        ] {
            assert!(is_near(host), "{host}");
        }
        for host in ["api.githubcopilot.com", "8.8.8.8", "[2606:4700::1]"] {
            assert!(!is_near(host), "{host}");
        }
    }

    #[test]
    fn the_name_of_a_tool_tells_its_backend() {
        assert!(may_have("git-hub", "git_hub_search") && may_have("s", "S_alpha"));
        assert!(!may_have("github", "github") && !may_have("jira", "github_search"));
    }
}
