//! The other replicas of this server: their counts are added to the counts of this process, their learned
//! pairs and approvals are adopted.
//!
//! Each process asks each other one for its [`ReplicaReport`] twice a second, on the admin port. The report
//! of a replica that is gone stays for a day, and is relayed to replicas that never met it. Counts are kept
//! by replica, so that none is added twice.
//!
//! Rounds instead of a fan-out on each read: a fan-out would lose the counts of a pod with the pod, which
//! rounds limit to the last second; and approvals and learned pairs take effect in searches and lists, which
//! wait for no other replica. An unchanged report costs one request, answered 304 by its entity tag.

mod answers;
mod client;
mod console_pages;
mod known;
mod logins;
pub(crate) mod report;
mod usage;
mod version;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::net::lookup_host;
use tokio::time::timeout;
use vmcp_config::Config;
use vmcp_store::StoreError;

use super::revocations::WithdrawnCredentials;
use super::tool_drift::DriftGuard;
use crate::random::milliseconds;
use crate::search::context::Learner;
use crate::telemetry::tool_metrics::{Filter, MetricsBook, ToolMetricsRecorder};
use client::Answer;
use known::KnownReplicas;
use report::ReplicaReport;
use version::{ReportVersions, Sources};

pub use console_pages::{OfReplica, OtherReplica, OtherReplicas, Waiting};
pub use known::Census;
pub use logins::{ClientLogin, ClientName, ReplicaLogins, TotalLogins};
pub use usage::{ReplicaUsage, TotalUsage};

/// Time between two rounds: the loss of a pod loses the calls of this time, and of one round's.
pub(super) const ROUND_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit of one name's resolution.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Most replicas that are asked; further addresses are left out.
const MAX_REPLICAS: usize = 64;
/// File with the lasting id of this replica, beside `state.db`.
const ID_FILE: &str = "replica-id";

/// The exchange with the other replicas: its state, and what it reads and writes of this process.
pub(super) struct Replicas {
    /// Id of this process; as lasting as its database.
    id: String,
    known: ArcSwap<KnownReplicas>,
    /// The sums, and what they were made of.
    sums: Mutex<Option<Sums>>,
    /// By address: the last answer of the replica there.
    heard: Mutex<HashMap<SocketAddr, LastAnswer>>,
    /// Entity tags of this process's report.
    versions: ReportVersions,
    /// Held during a round: a second caller waits for it and starts its own.
    round: tokio::sync::Mutex<()>,
    tool_metrics: Arc<ToolMetricsRecorder>,
    learner: Arc<Learner>,
    drift: Arc<DriftGuard>,
    withdrawn: Arc<WithdrawnCredentials>,
}

/// The last answer of another replica, which stands until it answers again.
#[derive(Clone)]
struct LastAnswer {
    /// Entity tag of the report; a replica that has none sends all of it each time.
    tag: Option<String>,
    /// The report without its learned pairs, which are taken over at once.
    report: Arc<ReplicaReport>,
    /// Time up to which its learned pairs were taken over.
    learned_up_to: i64,
    /// Version of this process's definitions at which its approvals were last taken over.
    adopted_at: Option<u64>,
}

struct Sums {
    own: Arc<MetricsBook>,
    known: Arc<KnownReplicas>,
    total: Arc<MetricsBook>,
}

impl Replicas {
    /// Makes the state of a process whose database is in `dir`, or in memory.
    pub(super) fn new(
        dir: Option<&Path>,
        tool_metrics: Arc<ToolMetricsRecorder>,
        learner: Arc<Learner>,
        drift: Arc<DriftGuard>,
        withdrawn: Arc<WithdrawnCredentials>,
    ) -> Replicas {
        Replicas {
            tool_metrics,
            learner,
            drift,
            withdrawn,
            id: dir.map_or_else(random_id, lasting_id),
            known: ArcSwap::default(),
            sums: Mutex::default(),
            heard: Mutex::default(),
            versions: ReportVersions::new(random_id()),
            round: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the metrics of each tool, summed over all replicas. Sums are kept until a summand changes.
    pub(super) fn total(&self) -> Arc<MetricsBook> {
        let (own, known) = (self.tool_metrics.book(), self.known.load_full());
        if known.is_empty() {
            return own;
        }
        let mut sums = self.sums.lock();
        if let Some(made) = sums.as_ref()
            && Arc::ptr_eq(&made.own, &own)
            && Arc::ptr_eq(&made.known, &known)
        {
            return Arc::clone(&made.total);
        }
        let total = Arc::new(known.added_to(&own));
        *sums = Some(Sums { own, known, total: Arc::clone(&total) });
        total
    }

    /// Counts the replicas: this process, and the others as of the last round.
    pub(super) fn census(&self) -> Census {
        self.known.load().census()
    }

    /// Forgets metrics of tools here, and unless `only_here` at the other replicas; returns the number of
    /// tools that had some in the sums.
    pub(super) async fn reset(&self, config: &Config, filter: Filter, only_here: bool) -> usize {
        let before = self.total().all().filter(|metrics| filter.admits(metrics)).count();
        self.tool_metrics.reset(filter.clone()).await;
        if !only_here {
            // A replica that is asked to forget asks no other one, so that none waits for itself.
            let (addresses, _) = addresses(config, LOOKUP_TIMEOUT).await;
            join_all(addresses.into_iter().map(|address| client::reset(config, address, &filter))).await;
        }
        self.known.store(Arc::new(self.known.load().without(&filter)));
        before
    }

    /// Returns the report of this process for other replicas, with its entity tag; of learned pairs, those
    /// used at `learned_after` or later. No report if its tag would be `known_tag`.
    pub(super) async fn own_report(
        &self,
        learned_after: i64,
        known_tag: Option<&str>,
    ) -> (String, Option<ReplicaReport>) {
        self.tool_metrics.flush().await;
        let sources = Sources {
            own: self.tool_metrics.book(),
            learned: self.learner.learned(),
            known: self.known.load_full(),
            approvals: self.drift.version(),
            revocations: self.withdrawn.revocations().version(),
        };
        let tag = self.versions.tag(&sources, learned_after);
        if known_tag == Some(tag.as_str()) {
            return (tag, None);
        }
        let mut report = sources.known.departed_report();
        report.replica.clone_from(&self.id);
        report.tools = sources.own.all().map(|metrics| (**metrics).clone()).collect();
        let recent = sources.learned.all().filter(|pair| pair.last_used >= learned_after);
        report.learned = recent.map(|pair| pair.as_ref().into()).collect();
        report.revoked.clone_from(&self.withdrawn.revocations().all());
        let drift = Arc::clone(&self.drift);
        let approved = tokio::task::spawn_blocking(move || drift.approved()).await;
        // The task fails only when the runtime is going down.
        report.approved = approved.ok().and_then(Result::ok).unwrap_or_default();
        (tag, Some(report))
    }

    /// Asks all other replicas once, and takes in their reports. Returns true if definitions that were
    /// approved elsewhere are trusted here now, so that the snapshot is to be rebuilt.
    pub(super) async fn round(&self, config: &Config) -> bool {
        let _round = self.round.lock().await;
        if config.server.peers.is_empty() {
            if !self.known.load().is_empty() {
                self.known.store(Arc::default());
            }
            return false;
        }
        let (addresses, mut unreachable) = addresses(config, LOOKUP_TIMEOUT).await;
        let before = std::mem::take(&mut *self.heard.lock());
        let asked = addresses.into_iter().map(async |address| {
            let last = before.get(&address).cloned();
            (address, client::report(config, address, last).await)
        });
        let (mut changed, mut approved) = (false, false);
        let mut heard = HashMap::new();
        for (address, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => {
                    changed |= answer.is_new;
                    let (last, adopted) = self.adopt(answer).await;
                    approved |= adopted;
                    heard.insert(address, last);
                }
                Err(reason) => {
                    tracing::debug!(%address, reason, "another replica gave no report");
                    unreachable.push(address.to_string());
                }
            }
        }
        let others = heard.values().filter(|heard| heard.report.replica != self.id);
        let others: Vec<_> = others.map(|heard| Arc::clone(&heard.report)).collect();
        *self.heard.lock() = heard;
        if !changed && self.known.load().is_of(&others, &unreachable) {
            return approved;
        }
        let now = milliseconds(SystemTime::now());
        let reports = others.iter().map(|report| (**report).clone()).collect();
        let known = self.known.load().after_round(reports, unreachable, &self.id, now);
        if known != **self.known.load() {
            self.known.store(Arc::new(known));
        }
        approved
    }

    /// Takes over what a replica learned and what was approved there; true if an approval was new here.
    async fn adopt(&self, answer: Answer) -> (LastAnswer, bool) {
        let Answer { mut heard, learned, is_new } = answer;
        if heard.report.replica == self.id {
            return (heard, false);
        }
        if is_new {
            self.withdrawn.adopt(&heard.report.revoked);
        }
        if !learned.is_empty() {
            self.learner.adopt(learned.iter().map(Into::into).collect());
        }
        let version = self.drift.version();
        let current = heard.adopted_at == Some(version) && !is_new;
        if current || heard.report.approved.is_empty() {
            return (heard, false);
        }
        let (drift, report) = (Arc::clone(&self.drift), Arc::clone(&heard.report));
        let adopt = move || drift.adopt(&report.approved);
        // The task fails only when the runtime is going down.
        match tokio::task::spawn_blocking(adopt).await.unwrap_or(Ok::<usize, StoreError>(0)) {
            Ok(0) => heard.adopted_at = Some(version),
            Ok(adopted) => {
                tracing::info!(
                    tools = adopted,
                    "definitions that were approved at another replica are in force"
                );
                return (heard, true);
            }
            Err(error) => tracing::warn!(%error, "approvals of another replica could not be taken over"),
        }
        (heard, false)
    }
}

/// Resolves the configured peers at once, each within `limit`. Returns the addresses, and the names without
/// one.
async fn addresses(config: &Config, limit: Duration) -> (Vec<SocketAddr>, Vec<String>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    let peers = &config.server.peers;
    let lookups = peers.iter().map(|peer| timeout(limit, lookup_host(peer.as_str())));
    let resolved = join_all(lookups).await;
    for (peer, resolved) in peers.iter().zip(resolved) {
        match resolved {
            Ok(Ok(addresses)) => found.extend(addresses),
            Ok(Err(_)) | Err(_) => unknown.push(peer.clone()),
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_REPLICAS);
    (found, unknown)
}

/// Reads the id of the replica whose database is in `dir`, or makes one.
fn lasting_id(dir: &Path) -> String {
    let path = dir.join(ID_FILE);
    let known = std::fs::read_to_string(&path).ok().map(|id| id.trim().to_owned());
    if let Some(known) = known.filter(|id| !id.is_empty()) {
        return known;
    }
    let id = random_id();
    if let Err(error) = std::fs::write(&path, &id) {
        tracing::debug!(%error, "the id of this replica was not written; it has another one after a restart");
    }
    id
}

fn random_id() -> String {
    let mut bytes = [0; 8];
    // Without randomness no id is unique; sessions fail before.
    if getrandom::fill(&mut bytes).is_err() {
        tracing::error!("the operating system gives no random bytes");
    }
    format!("{:016x}", u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_replica_is_as_lasting_as_its_database() {
        let dir = tempfile::tempdir().unwrap();
        let id = lasting_id(dir.path());
        assert_eq!((id.len(), lasting_id(dir.path())), (16, id.clone()));
        assert_ne!(random_id(), id);
        assert_eq!(lasting_id(Path::new("/nowhere")).len(), 16);
    }
}
