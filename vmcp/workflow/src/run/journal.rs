//! [`Journal`]: notes of a run, for the people who watch it and for the process that continues it.

use std::future::Future;
use std::time::Duration;

use super::state::{ItemState, State, Status, StepState};
use crate::definition::CompositeTool;

/// Takes the notes of one run.
pub trait Journal: Sync {
    /// Notes that a run has begun, or goes on. `begun` is the time of its begin, since the Unix epoch.
    fn begins(&self, run: &str, begun: Duration);

    /// Notes the phase of a step; `error` says why it failed.
    fn step(&self, step: &str, phase: Phase, error: Option<&str>);

    /// True if the run is kept, so that another process can continue it.
    fn keeps(&self) -> bool;

    /// Keeps the state of the run, before a call that may not be repeated is sent, after its end, and when a
    /// question is opened. On an error nothing more is sent, and the run ends with that text.
    fn keep(&self, state: String) -> impl Future<Output = Result<(), String>> + Send;
}

/// Phase of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its calls are under way.
    Running,
    /// It waits for an answer of the user.
    Waiting,
    /// It has a result.
    Completed,
    /// It has failed.
    Failed,
    /// It did not run: its condition was false, or the user ended the run early.
    Skipped,
    /// Its process ended while it was under way: it may have been done, or not.
    Unknown,
}

/// Takes no notes.
impl Journal for () {
    fn begins(&self, _: &str, _: Duration) {}

    fn step(&self, _: &str, _: Phase, _: Option<&str>) {}

    fn keeps(&self) -> bool {
        false
    }

    async fn keep(&self, _: String) -> Result<(), String> {
        Ok(())
    }
}

impl StepState {
    /// Returns the phase of the step, for people.
    pub(super) fn phase(&self) -> Phase {
        match self {
            StepState::Calling => Phase::Running,
            StepState::Waiting(_) => Phase::Waiting,
            StepState::Looping(each) if each.calling > 0 => Phase::Running,
            StepState::Looping(each) => {
                let waits = |item: &ItemState| matches!(item, ItemState::Waiting(_));
                if each.begun.values().any(waits) { Phase::Waiting } else { Phase::Running }
            }
            StepState::Ended(end) => end.status.phase(),
        }
    }
}

impl Status {
    /// Returns the phase of a step that has ended so.
    pub(super) fn phase(self) -> Phase {
        match self {
            Status::Completed => Phase::Completed,
            Status::Failed => Phase::Failed,
            Status::Skipped => Phase::Skipped,
        }
    }
}

impl State {
    /// Prepares a state whose process has ended: calls that may be repeated begin again. Returns the steps,
    /// and items of steps, whose calls may not be repeated and whose end is unknown.
    pub(super) fn recover(&mut self, tool: &CompositeTool, may_repeat: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lost = Vec::new();
        for step in &tool.steps {
            let repeats = step.action.tool().is_none_or(&may_repeat);
            match self.steps.get_mut(&step.id) {
                Some(StepState::Calling) if repeats => drop(self.steps.remove(&step.id)),
                Some(StepState::Calling) => lost.push(step.id.clone()),
                Some(StepState::Looping(each)) => each.begun.retain(|index, item| {
                    let was_under_way = matches!(item, ItemState::Calling);
                    if was_under_way && !repeats {
                        lost.push(super::questions::place_of_item(&step.id, *index));
                    }
                    !was_under_way
                }),
                Some(StepState::Ended(_) | StepState::Waiting(_)) | None => {}
            }
        }
        lost
    }
}
