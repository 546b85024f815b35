//! The schedule of polls: which pod is due when, and the last that is known of each. Pure: the time is passed
//! in.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use vmcp_config::rules::trusted_tools::TrustedTools;
use vmcp_config::status::StatusReport;

use super::PolledPod;
use crate::workload::admin::AskError;
use vmcp_error_chain::error_chain;

/// Time for which the last report counts while newer reports fail.
const MAX_REPORT_AGE: Duration = Duration::from_secs(30);
/// Failures in a row that say nothing yet: one packet may be lost.
const QUIET_FAILURES: u32 = 1;
/// The pause after the first failure; it doubles with each one more.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause between two polls of a pod that does not answer.
const MAX_PAUSE: Duration = Duration::from_mins(2);

/// The most different documents of trusted tools that are kept for the pods of one owner, each of up to 1 MiB
/// of JSON. Pods with a further one are asked again at each poll.
const MAX_DOCUMENTS: usize = 4;

/// Namespace and name of the resource that a pod belongs to.
pub(super) type Owner = (String, String);

/// The reason for which a pod cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PollFailure {
    /// The reason of a condition.
    pub(crate) reason: &'static str,
    /// The error and the remedy.
    pub(crate) message: String,
}

/// Plan for asking the pods of an owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PollPlan<'a> {
    /// The interval between two polls of a pod.
    pub(crate) interval: Duration,
    /// Digest of the trusted definitions of tools that the operator keeps: pods with others are asked for
    /// theirs. `None`: none is asked.
    pub(crate) kept_trust: Option<&'a str>,
}

impl PollPlan<'_> {
    /// Returns a plan without trusted definitions.
    pub(crate) fn every(interval: Duration) -> Self {
        Self { interval, kept_trust: None }
    }
}

/// All pods that are asked, by uid.
#[derive(Default)]
pub(super) struct Schedule {
    pods: HashMap<String, Entry>,
    /// Pods by the time at which they are due; a pod that is being asked is in none.
    due: BTreeSet<(Instant, String)>,
    of_owner: HashMap<Owner, Vec<String>>,
}

/// A pod with its state.
struct Entry {
    pod: Arc<Pod>,
    owner: Owner,
    token: Vec<u8>,
    /// The token that the pod accepted last.
    accepted: Option<Vec<u8>>,
    interval: Duration,
    /// `None` while the pod is being asked, or new.
    due: Option<Instant>,
    asking: bool,
    failures: u32,
    report: Option<(Instant, Arc<StatusReport>)>,
    failure: Option<PollFailure>,
    /// Digest of the trusted definitions that the operator keeps; `None`: it keeps none.
    kept_trust: Option<String>,
    /// The trusted definitions of the pod where they differ from the kept ones, with their digest.
    trusted: Option<(String, Arc<TrustedTools>)>,
    /// Failures in a row to read the trusted definitions.
    trust_failures: u32,
    trust_unread: Option<String>,
}

impl Entry {
    /// Notes the trusted definitions with this digest, as they were read, `None` without a request; returns
    /// true if they, or the failure to read them, are news.
    fn note_trust(&mut self, digest: &str, read: Option<Result<Arc<TrustedTools>, String>>) -> bool {
        let was_unread = self.trust_unread.is_some();
        let is_new = match read {
            Some(Ok(document)) => {
                self.trusted = Some((digest.to_owned(), document));
                true
            }
            Some(Err(fault)) => {
                self.trust_failures = self.trust_failures.saturating_add(1);
                // The first words stay: a status must come to rest.
                if self.trust_failures > QUIET_FAILURES && !was_unread {
                    self.trust_unread = Some(fault);
                    return true;
                }
                return false;
            }
            // The kept definitions are the same.
            None if digest.is_empty() || self.kept_trust.as_deref() == Some(digest) => {
                self.trusted.take().is_some()
            }
            None => false,
        };
        (self.trust_failures, self.trust_unread) = (0, None);
        is_new || was_unread
    }
}

/// A poll to make.
pub(super) struct Ask {
    pub(super) pod: Arc<Pod>,
    pub(super) owner: Owner,
    /// The tokens to try: the newest first.
    pub(super) tokens: Vec<Vec<u8>>,
    /// Digests of trusted definitions that need no request; `None`: none are asked for.
    pub(super) known_trust: Option<[Option<String>; 2]>,
}

impl Ask {
    /// Returns true if the trusted definitions with this digest are to be asked for.
    pub(super) fn wants_trust(&self, digest: &str) -> bool {
        let is_known = |known: &[Option<String>; 2]| known.iter().flatten().any(|known| known == digest);
        !digest.is_empty() && self.known_trust.as_ref().is_some_and(|known| !is_known(known))
    }
}

/// The answer of a pod.
pub(super) struct PodAnswer {
    pub(super) report: StatusReport,
    /// The token that the pod accepted.
    pub(super) token: Vec<u8>,
    /// Its trusted definitions, or the reason for which they cannot be read, if they were asked for.
    pub(super) trusted: Option<Result<TrustedTools, String>>,
}

impl Schedule {
    /// Replaces the pods of an owner; returns the state of each, and true if one is due sooner than before.
    pub(super) fn observe(
        &mut self,
        owner: &Owner,
        pods: &[Arc<Pod>],
        token: &[u8],
        PollPlan { interval, kept_trust }: PollPlan<'_>,
        now: Instant,
    ) -> (Vec<PolledPod>, bool) {
        let uids: Vec<_> = pods.iter().map(|pod| pod.uid().unwrap_or_default()).collect();
        for gone in self.of_owner.remove(owner).into_iter().flatten().filter(|uid| !uids.contains(uid)) {
            self.remove(&gone);
        }
        let mut sooner = false;
        let mut polled = Vec::with_capacity(pods.len());
        for (pod, uid) in pods.iter().zip(&uids) {
            let entry = self.pods.entry(uid.clone()).or_insert_with(|| Entry {
                pod: pod.clone(),
                owner: owner.clone(),
                token: token.to_vec(),
                accepted: None,
                interval,
                due: None,
                asking: false,
                failures: 0,
                report: None,
                failure: None,
                kept_trust: None,
                trusted: None,
                trust_failures: 0,
                trust_unread: None,
            });
            let address = |pod: &Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
            let moved = address(&entry.pod) != address(pod) || entry.token != token;
            entry.pod = pod.clone();
            token.clone_into(&mut entry.token);
            let quicker = interval < entry.interval && entry.failures == 0;
            entry.interval = interval;
            entry.kept_trust = kept_trust.map(str::to_owned);
            entry.trusted = entry.trusted.take().filter(|_| kept_trust.is_some());
            let due = match entry.due {
                None if !entry.asking => Some(now),
                Some(due) if moved => Some(due.min(now)),
                Some(due) if quicker => Some(due.min(now + interval)),
                _ => None,
            };
            if let Some(due) = due {
                sooner = true;
                if let Some(before) = entry.due.replace(due) {
                    self.due.remove(&(before, uid.clone()));
                }
                self.due.insert((due, uid.clone()));
            }
            let (reported_at, report) = entry.report.clone().unzip();
            let trusted = entry.trusted.as_ref().map(|(_, trusted)| Arc::clone(trusted));
            let (failure, trust_unread) = (entry.failure.clone(), entry.trust_unread.clone());
            polled.push(PolledPod { report, reported_at, failure, trusted, trust_unread });
        }
        if !uids.is_empty() {
            self.of_owner.insert(owner.clone(), uids);
        }
        (polled, sooner)
    }

    /// Takes at most `limit` pods that are due; returns them and the time at which the next one is.
    pub(super) fn take_due(&mut self, limit: usize, now: Instant) -> (Vec<Ask>, Option<Instant>) {
        let mut asks = Vec::new();
        while asks.len() < limit
            && let Some((due, _)) = self.due.first()
            && *due <= now
            && let Some((_, uid)) = self.due.pop_first()
        {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            (entry.due, entry.asking) = (None, true);
            let before = entry.accepted.iter().filter(|accepted| **accepted != entry.token);
            let tokens = std::iter::once(&entry.token).chain(before).cloned().collect();
            let known_trust = entry
                .kept_trust
                .clone()
                .map(|kept| [Some(kept), entry.trusted.as_ref().map(|(digest, _)| digest.clone())]);
            asks.push(Ask { pod: entry.pod.clone(), owner: entry.owner.clone(), tokens, known_trust });
        }
        (asks, self.due.first().map(|(due, _)| *due))
    }

    /// Records the answer of a pod; returns true if it is news.
    pub(super) fn answered(&mut self, uid: &str, answer: Result<PodAnswer, AskError>, now: Instant) -> bool {
        let answer = answer.map(|PodAnswer { report, token, trusted }| {
            (report, token, trusted.map(|read| read.and_then(|document| self.share(uid, document))))
        });
        let Some(entry) = self.pods.get_mut(uid) else { return false };
        let (had_report, before) = (entry.report.take(), entry.failure.take());
        let mut is_new_trust = false;
        let pause = match answer {
            Ok((report, token, trusted)) => {
                entry.failures = 0;
                entry.accepted = Some(token);
                is_new_trust = entry.note_trust(&report.trusted_tools, trusted);
                entry.report = Some((now, Arc::new(without_counters(report))));
                entry.interval
            }
            Err(error) => {
                entry.failures = entry.failures.saturating_add(1);
                entry.report = had_report.clone().filter(|(at, _)| now - *at < MAX_REPORT_AGE);
                if entry.failures > QUIET_FAILURES {
                    let (reason, remedy) = error.advice();
                    let message = format!("{}; {remedy}", error_chain(&error));
                    // The first words stay while the reason stays: a status must come to rest.
                    let same = before.clone().filter(|before| before.reason == reason);
                    entry.failure = Some(same.unwrap_or(PollFailure { reason, message }));
                }
                pause(entry.failures)
            }
        };
        (entry.due, entry.asking) = (Some(now + pause), false);
        self.due.insert((now + pause, uid.to_owned()));
        let known = had_report.map(|(_, report)| report);
        is_new_trust
            || known != entry.report.as_ref().map(|(_, report)| report.clone())
            || before != entry.failure
    }

    /// Returns the document to keep for a pod: that of another pod of its owner where they are equal. An
    /// error if the others have [`MAX_DOCUMENTS`] different ones.
    fn share(&self, uid: &str, document: TrustedTools) -> Result<Arc<TrustedTools>, String> {
        let owner = self.pods.get(uid).map(|entry| &entry.owner);
        let of_owner = owner.and_then(|owner| self.of_owner.get(owner)).into_iter().flatten();
        let others = of_owner.filter(|other| other.as_str() != uid);
        let mut seen: Vec<&Arc<TrustedTools>> = Vec::new();
        for (_, kept) in others.filter_map(|other| self.pods.get(other)?.trusted.as_ref()) {
            if seen.iter().any(|other| Arc::ptr_eq(other, kept)) {
                continue;
            }
            if **kept == document {
                return Ok(Arc::clone(kept));
            }
            seen.push(kept);
        }
        if seen.len() >= MAX_DOCUMENTS {
            return Err(format!("{MAX_DOCUMENTS} other pods have different ones, and no more are kept"));
        }
        Ok(Arc::new(document))
    }

    /// Drops a pod that is gone.
    pub(super) fn forget(&mut self, uid: &str) {
        if let Some(entry) = self.remove(uid)
            && let Some(uids) = self.of_owner.get_mut(&entry.owner)
        {
            uids.retain(|known| known != uid);
            if uids.is_empty() {
                self.of_owner.remove(&entry.owner);
            }
        }
    }

    fn remove(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        if let Some(due) = entry.due {
            self.due.remove(&(due, uid.to_owned()));
        }
        Some(entry)
    }
}

/// Returns the pause after this many failures in a row.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(MAX_PAUSE)
}

/// Drops the parts of a report that no status shows and that change all the time.
fn without_counters(report: StatusReport) -> StatusReport {
    let StatusReport { configuration, mut backends, tools, embeddings, issues, trusted_tools, .. } = report;
    for backend in &mut backends {
        (backend.since, backend.connected_at, backend.last_refresh) = (None, None, None);
        (backend.sessions, backend.changes) = (0, None);
    }
    StatusReport {
        configuration,
        backends,
        tools,
        embeddings,
        issues,
        trusted_tools,
        ..StatusReport::default()
    }
}

#[cfg(test)]
mod tests;
