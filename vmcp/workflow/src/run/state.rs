//! State of a run: what has ended and what waits for an answer. It is JSON while the run waits, and where it
//! is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ContinueError;
use crate::definition::CompositeTool;

const VERSION: u8 = 1;

/// State of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    version: u8,
    pub(super) id: String,
    /// SHA-256 of the definition.
    definition: [u8; 32],
    /// Begin of the run, since the Unix epoch.
    pub(super) begun: Duration,
    pub(super) params: Map<String, Value>,
    /// Steps that have ended or begun, by id.
    pub(super) steps: BTreeMap<String, StepState>,
    /// Steps that completed, in the order of their ends.
    pub(super) completed: Vec<String>,
    /// True if no further step begins: the user declined, and `skip_remaining` applies.
    pub(super) skips_rest: bool,
}

/// State of a step that has begun.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum StepState {
    Ended(StepEnd),
    /// It asks the user.
    Waiting(Waiting),
    /// A `forEach`; some of its items have ended.
    Looping(Loop),
    /// Its call is under way. In the state of a run whose process has ended, its end is unknown.
    Calling,
}

/// The end of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StepEnd {
    pub(super) status: Status,
    pub(super) output: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) content: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Status of a step that has ended, in templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Completed,
    Failed,
    Skipped,
}

impl Status {
    pub(super) fn word(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
        }
    }
}

/// Questions that are open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) questions: Map<String, Value>,
    /// State of the tool that asks.
    pub(super) state: Option<String>,
    /// Arguments of the call, which is repeated with the same ones.
    pub(super) arguments: Map<String, Value>,
    /// Time since the begin of the run after which an answer is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Duration>,
}

/// A `forEach` in the middle.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Loop {
    pub(super) items: Vec<Value>,
    /// Items in work or ended.
    pub(super) begun: BTreeMap<usize, ItemState>,
    /// Time since the begin of the run at which the time of the step is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Duration>,
    /// Items whose call is under way.
    #[serde(skip)]
    pub(super) calling: usize,
}

impl Loop {
    /// Returns the time that is left at `elapsed` since the begin of the run; `None`: that of the run.
    pub(super) fn left(&self, elapsed: Duration) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(elapsed))
    }
}

/// State of one item.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum ItemState {
    Ended(StepEnd),
    Waiting(Waiting),
    Calling,
}

impl State {
    pub(super) fn new(
        tool: &CompositeTool,
        id: String,
        params: Map<String, Value>,
        begun: Duration,
    ) -> State {
        State {
            version: VERSION,
            id,
            definition: tool.hash,
            begun,
            params,
            steps: BTreeMap::new(),
            completed: Vec::new(),
            skips_rest: false,
        }
    }

    /// Reads the state of a run that waited or was kept.
    pub(super) fn read(text: &str, tool: &CompositeTool) -> Result<State, ContinueError> {
        let state: State = serde_json::from_str(text).map_err(|_| ContinueError::Unreadable)?;
        if state.version != VERSION {
            return Err(ContinueError::Unreadable);
        }
        if state.definition == tool.hash { Ok(state) } else { Err(ContinueError::Changed) }
    }

    /// Writes the state of a run that waits or is kept.
    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// True if the step has ended.
    pub(super) fn has_ended(&self, step: &str) -> bool {
        matches!(self.steps.get(step), Some(StepState::Ended(_)))
    }

    /// Notes the end of a step.
    pub(super) fn end(&mut self, step: &str, end: StepEnd) {
        if end.status == Status::Completed {
            self.completed.push(step.to_owned());
        }
        self.steps.insert(step.to_owned(), StepState::Ended(end));
    }
}

impl StepEnd {
    pub(super) fn completed(output: Value, content: Value) -> StepEnd {
        StepEnd { status: Status::Completed, output, content, error: None }
    }

    pub(super) fn skipped(output: Option<&Value>) -> StepEnd {
        let output = output.cloned().unwrap_or_default();
        StepEnd { status: Status::Skipped, output, content: Value::Null, error: None }
    }

    pub(super) fn failed(output: Option<&Value>, error: String) -> StepEnd {
        let output = output.cloned().unwrap_or_default();
        StepEnd { status: Status::Failed, output, content: Value::Null, error: Some(error) }
    }
}
