//! The other replicas of this server: what they counted is added to what this process counted, and what they
//! learned or approved is taken over.
//!
//! Each process asks each other one for its [`ReplicaReport`] twice a second, on the admin port. The report
//! of a replica that is gone stays for a day, and is handed on to replicas that never met it: the loss of a
//! pod loses no call that is older than a second. Counts are kept by replica, so that none is added twice.

mod client;
mod known;
pub(crate) mod report;
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
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use vmcp_config::Config;
use vmcp_store::StoreError;

use super::recorder::definition_changes::milliseconds;
use super::shared::Shared;
use super::{Engine, Snapshot};
use crate::telemetry::tool_metrics::{Filter, MetricsBook};
use client::Answer;
use known::Known;
use report::ReplicaReport;
use version::{ReportVersions, Sources};

pub use known::Census;

/// Time between two rounds: the loss of a pod loses the calls of this time, and of one round's.
const ROUND_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit of one name's resolution.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Most replicas that are asked; further addresses are left out.
const MAX_REPLICAS: usize = 64;
/// File with the lasting id of this replica, beside `state.db`.
const ID_FILE: &str = "replica-id";

/// State of the exchange with the other replicas.
pub(super) struct Replicas {
    /// Id of this process; as lasting as its database.
    id: String,
    known: ArcSwap<Known>,
    /// The sums, and what they were made of.
    sums: Mutex<Option<Sums>>,
    /// By address: the last answer of the replica there.
    heard: Mutex<HashMap<SocketAddr, Heard>>,
    /// Entity tags of this process's report.
    versions: ReportVersions,
    /// Held during a round: a second caller waits for it and starts its own.
    round: tokio::sync::Mutex<()>,
}

/// The last answer of another replica, which stands until it answers anew.
#[derive(Clone)]
struct Heard {
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
    known: Arc<Known>,
    total: Arc<MetricsBook>,
}

impl Replicas {
    /// Makes the state of a process whose database is in `dir`, or in memory.
    pub(super) fn new(dir: Option<&Path>) -> Replicas {
        Replicas {
            id: dir.map_or_else(random_id, lasting_id),
            known: ArcSwap::default(),
            sums: Mutex::default(),
            heard: Mutex::default(),
            versions: ReportVersions::new(random_id()),
            round: tokio::sync::Mutex::default(),
        }
    }

    /// Adds what other replicas counted to `own`. Sums are kept until either changes.
    fn total(&self, own: Arc<MetricsBook>) -> Arc<MetricsBook> {
        let known = self.known.load_full();
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
}

impl Engine {
    /// Returns the metrics of each tool, summed over all replicas.
    pub fn total_metrics(&self) -> Arc<MetricsBook> {
        self.0.shared.replicas.total(self.tool_metrics().book())
    }

    /// Counts the replicas: this process, and the others as of the last round. `None` if none is configured.
    pub fn census(&self, snapshot: &Snapshot) -> Option<Census> {
        let configured = !snapshot.config.server.peers.is_empty();
        configured.then(|| self.0.shared.replicas.known.load().census())
    }

    /// Waits until everything that was called before, here or at another replica, is counted.
    pub async fn gather_metrics(&self) {
        self.tool_metrics().flush().await;
        self.round().await;
    }

    /// Forgets metrics of tools here, and unless `only_here` at the other replicas; returns the number of
    /// tools that had some in the sums.
    pub async fn reset_metrics(&self, filter: Filter, only_here: bool) -> usize {
        let replicas = &self.0.shared.replicas;
        let before = self.total_metrics().all().filter(|metrics| filter.admits(metrics)).count();
        self.tool_metrics().reset(filter.clone()).await;
        if !only_here {
            // A replica that is asked to forget asks no other one, so that none waits for itself.
            let config = Arc::clone(&self.snapshot().config);
            let (addresses, _) = addresses(&config).await;
            join_all(addresses.into_iter().map(|address| client::reset(&config, address, &filter))).await;
        }
        replicas.known.store(Arc::new(replicas.known.load().without(&filter)));
        before
    }

    /// Returns what other replicas ask for, with its entity tag; of learned pairs, those used at
    /// `learned_after` or later. No report if its tag would be `known_tag`.
    pub async fn replica_report(
        &self,
        learned_after: i64,
        known_tag: Option<&str>,
    ) -> (String, Option<ReplicaReport>) {
        self.tool_metrics().flush().await;
        let shared = Arc::clone(&self.0.shared);
        let sources = Sources {
            own: self.tool_metrics().book(),
            learned: self.learner().learned(),
            known: shared.replicas.known.load_full(),
            approvals: shared.drift.version(),
            revocations: self.revocations().version(),
        };
        let tag = shared.replicas.versions.tag(&sources, learned_after);
        if known_tag == Some(tag.as_str()) {
            return (tag, None);
        }
        let mut report = sources.known.departed_report();
        report.replica.clone_from(&shared.replicas.id);
        report.tools = sources.own.all().map(|metrics| (**metrics).clone()).collect();
        let recent = sources.learned.all().filter(|pair| pair.last_used >= learned_after);
        report.learned = recent.map(|pair| pair.as_ref().into()).collect();
        report.revoked.clone_from(&self.revocations().all());
        let approved = tokio::task::spawn_blocking(move || shared.drift.approved()).await;
        // The task fails only when the runtime is going down.
        report.approved = approved.ok().and_then(Result::ok).unwrap_or_default();
        (tag, Some(report))
    }

    /// Asks all other replicas once, and takes in their reports.
    async fn round(&self) {
        let replicas = &self.0.shared.replicas;
        let _round = replicas.round.lock().await;
        let config = Arc::clone(&self.snapshot().config);
        if config.server.peers.is_empty() {
            if !replicas.known.load().is_empty() {
                replicas.known.store(Arc::default());
            }
            return;
        }
        let (addresses, mut unreachable) = addresses(&config).await;
        let before = std::mem::take(&mut *replicas.heard.lock());
        let asked = addresses.into_iter().map(async |address| {
            let last = before.get(&address).cloned();
            (address, client::report(&config, address, last).await)
        });
        let mut changed = false;
        let mut heard = HashMap::new();
        for (address, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => {
                    changed |= answer.is_new;
                    heard.insert(address, self.adopt(answer).await);
                }
                Err(reason) => {
                    tracing::debug!(%address, reason, "another replica gave no report");
                    unreachable.push(address.to_string());
                }
            }
        }
        let others = heard.values().filter(|heard| heard.report.replica != replicas.id);
        let others: Vec<_> = others.map(|heard| Arc::clone(&heard.report)).collect();
        *replicas.heard.lock() = heard;
        if !changed && replicas.known.load().is_of(&others, &unreachable) {
            return;
        }
        let now = milliseconds(SystemTime::now());
        let reports = others.iter().map(|report| (**report).clone()).collect();
        let known = replicas.known.load().after_round(reports, unreachable, &replicas.id, now);
        if known != **replicas.known.load() {
            replicas.known.store(Arc::new(known));
        }
    }

    /// Takes over what a replica learned and what was approved there.
    async fn adopt(&self, answer: Answer) -> Heard {
        let Answer { mut heard, learned, is_new } = answer;
        let shared: Arc<Shared> = Arc::clone(&self.0.shared);
        if heard.report.replica == shared.replicas.id {
            return heard;
        }
        if is_new && self.revocations().merge(&heard.report.revoked) {
            tracing::info!("credentials that were withdrawn at another replica are refused here");
            self.save_revocations();
        }
        if !learned.is_empty() {
            self.learner().adopt(learned.iter().map(Into::into).collect());
        }
        let version = shared.drift.version();
        let current = heard.adopted_at == Some(version) && !is_new;
        if current || heard.report.approved.is_empty() {
            return heard;
        }
        let report = Arc::clone(&heard.report);
        let adopt = move || shared.drift.adopt(&report.approved);
        // The task fails only when the runtime is going down.
        match tokio::task::spawn_blocking(adopt).await.unwrap_or(Ok::<usize, StoreError>(0)) {
            Ok(0) => heard.adopted_at = Some(version),
            Ok(adopted) => {
                tracing::info!(
                    tools = adopted,
                    "definitions that were approved at another replica are in force"
                );
                self.0.conductor.rebuild().await;
            }
            Err(error) => tracing::warn!(%error, "approvals of another replica could not be taken over"),
        }
        heard
    }
}

/// Asks the other replicas in turn, until `stop`.
pub(super) async fn run(engine: Engine, stop: CancellationToken) {
    // A handle would keep the engine alive; it ends with the last one outside of this task.
    let inner = Arc::downgrade(&engine.0);
    drop(engine);
    loop {
        tokio::select! {
            () = sleep(ROUND_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        let Some(inner) = inner.upgrade() else { return };
        Engine(inner).round().await;
    }
}

/// Resolves the configured peers; returns the addresses, and the names that have none.
async fn addresses(config: &Config) -> (Vec<SocketAddr>, Vec<String>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for peer in &config.server.peers {
        match timeout(LOOKUP_TIMEOUT, lookup_host(peer.as_str())).await {
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
