//! [`RunBook`]: the latest runs of this process, for `vmcp runs`. Neither arguments nor results are in it.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use vmcp_wire::sealed::request_state::STATE_LIFETIME;

/// Runs that are kept; an older run makes room for a new one, ended runs first.
const MAX_RUNS: usize = 500;
/// Characters of an error that are kept.
const MAX_ERROR_CHARS: usize = 300;

/// State of a run, or of one of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Calls are under way.
    Running,
    /// It waits for an answer of the user.
    Waiting,
    /// It has a result.
    Done,
    /// It has ended without a result.
    Failed,
    /// The step did not run.
    Skipped,
    /// Its end is not known here: it was cut off, or the answer it waited for did not come in time.
    Unknown,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// Id of the run, as in logs and audit.
    pub id: String,
    /// Name of the composite tool.
    pub tool: String,
    /// State.
    pub state: RunState,
    /// Subject of the caller; `anonymous` without one.
    pub who: String,
    /// Time of its begin, RFC 3339.
    pub begun: String,
    /// Milliseconds since then, or until its end, waits included.
    pub took_ms: u64,
    /// Reason of a failure, its first 300 characters.
    pub error: Option<String>,
    /// Steps that have begun, in the order of their begins.
    pub steps: Vec<StepReport>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// Id of the step.
    pub id: String,
    /// State.
    pub state: RunState,
    /// Milliseconds since its begin, or until its end; absent if it took none or ran in another process.
    pub took_ms: Option<u64>,
    /// Reason of a failure, its first 300 characters.
    pub error: Option<String>,
}

/// The latest runs.
#[derive(Debug, Default)]
pub struct RunBook(Mutex<VecDeque<Run>>);

#[derive(Debug)]
struct Run {
    id: String,
    tool: String,
    who: String,
    begun: SystemTime,
    state: RunState,
    /// End of the run, or begin of its wait.
    ended: Option<SystemTime>,
    error: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    id: String,
    state: RunState,
    begun: Option<SystemTime>,
    ended: Option<SystemTime>,
    error: Option<String>,
}

impl RunState {
    fn is_open(self) -> bool {
        matches!(self, RunState::Running | RunState::Waiting)
    }
}

impl RunBook {
    /// Notes that a run has begun, or goes on. `begun` is the time since the Unix epoch.
    pub fn begins(&self, id: &str, tool: &str, who: &str, begun: Duration) {
        let mut runs = self.0.lock();
        if let Some(run) = runs.iter_mut().rev().find(|run| run.id == id) {
            (run.state, run.ended, run.error) = (RunState::Running, None, None);
            return;
        }
        if runs.len() >= MAX_RUNS {
            let now = SystemTime::now();
            let ended = runs.iter().position(|run| !run.state.is_open() || run.is_late(now));
            runs.remove(ended.unwrap_or_default());
        }
        runs.push_back(Run {
            id: id.to_owned(),
            tool: tool.to_owned(),
            who: who.to_owned(),
            begun: UNIX_EPOCH + begun,
            state: RunState::Running,
            ended: None,
            error: None,
            steps: Vec::new(),
        });
    }

    /// Notes the state of a step.
    pub fn step(&self, run: &str, id: &str, state: RunState, error: Option<&str>) {
        let now = SystemTime::now();
        let mut runs = self.0.lock();
        let Some(run) = runs.iter_mut().rev().find(|known| known.id == run) else { return };
        let ended = (!state.is_open()).then_some(now);
        match run.steps.iter_mut().find(|step| step.id == id) {
            Some(step) if step.state == state => {}
            Some(step) => (step.state, step.ended, step.error) = (state, ended, error.map(first_words)),
            None => run.steps.push(Step {
                id: id.to_owned(),
                state,
                begun: state.is_open().then_some(now),
                ended,
                error: error.map(first_words),
            }),
        }
    }

    /// Notes the state of a run that has ended or waits. Its open steps are cut off with it.
    pub fn ends(&self, id: &str, state: RunState, error: Option<&str>) {
        let now = Some(SystemTime::now());
        let mut runs = self.0.lock();
        let Some(run) = runs.iter_mut().rev().find(|run| run.id == id) else { return };
        (run.state, run.ended, run.error) = (state, now, error.map(first_words));
        for step in run.steps.iter_mut().filter(|step| !state.is_open() && step.state.is_open()) {
            (step.state, step.ended) = (RunState::Unknown, now);
        }
    }

    /// Returns the runs, newest first.
    pub fn all(&self) -> Vec<RunReport> {
        let now = SystemTime::now();
        self.0.lock().iter().rev().map(|run| run.shown(now)).collect()
    }
}

impl Run {
    /// True if the run waits, and the answer can come no more.
    fn is_late(&self, now: SystemTime) -> bool {
        let waits_since = self.ended.filter(|_| self.state == RunState::Waiting);
        waits_since.is_some_and(|since| between(since, now) > STATE_LIFETIME)
    }

    fn shown(&self, now: SystemTime) -> RunReport {
        let is_late = self.is_late(now);
        let ended = self.ended.filter(|_| self.state != RunState::Waiting || is_late);
        let state = if is_late { RunState::Unknown } else { self.state };
        let late = || "no answer came in time".to_owned();
        RunReport {
            id: self.id.clone(),
            tool: self.tool.clone(),
            state,
            who: self.who.clone(),
            begun: humantime::format_rfc3339_millis(self.begun).to_string(),
            took_ms: milliseconds(between(self.begun, ended.unwrap_or(now))),
            error: self.error.clone().or_else(|| is_late.then(late)),
            steps: self.steps.iter().map(|step| step.shown(now)).collect(),
        }
    }
}

impl Step {
    fn shown(&self, now: SystemTime) -> StepReport {
        let took = self.begun.map(|begun| milliseconds(between(begun, self.ended.unwrap_or(now))));
        StepReport { id: self.id.clone(), state: self.state, took_ms: took, error: self.error.clone() }
    }
}

fn between(from: SystemTime, to: SystemTime) -> Duration {
    to.duration_since(from).unwrap_or_default()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn first_words(error: &str) -> String {
    error.chars().take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_answer_can_come_no_more_makes_room_like_an_ended_one() {
        let book = RunBook::default();
        let begin = |id: &str| book.begins(id, "triage", "alice", Duration::from_secs(1_700_000_000));
        begin("running");
        for id in ["waiting", "late"] {
            begin(id);
            book.ends(id, RunState::Waiting, None);
        }
        book.0.lock()[2].ended = Some(SystemTime::now() - STATE_LIFETIME * 2);
        assert_eq!(book.all()[0].state, RunState::Unknown);
        (0..MAX_RUNS - 2).for_each(|number| begin(&format!("run {number}")));
        let ids: Vec<_> = book.all().into_iter().map(|run| run.id).collect();
        assert_eq!(ids.len(), MAX_RUNS);
        assert!(!ids.contains(&"late".to_owned()));
        assert!(["running", "waiting"].iter().all(|id| ids.contains(&(*id).to_owned())));
    }
}
