//! One run of a composite tool: its state, and the loop that starts each step as soon as it may begin.
//!
//! A run ends with a result, with an error, or with questions to the user. Questions come with the state of
//! the run, which [`Begin::Continued`] takes back together with the answers: in another process, if need be.

mod arguments;
mod call;
mod driver;
mod journal;
mod output;
mod questions;
mod scope;
mod state;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::definition::CompositeTool;

pub use self::journal::{Journal, Phase};

/// Calls tools for a run, under the identity of its caller.
pub trait ToolCaller: Sync {
    /// Calls a tool. The call ends when the future is dropped.
    fn call(&self, call: ToolCall) -> impl Future<Output = CallEnd> + Send;

    /// Returns why the user cannot be asked; `None` if they can.
    fn cannot_ask(&self) -> Option<String>;

    /// True if a call of the tool may be made again after its answer was lost: it only reads, or a second
    /// call changes nothing more.
    fn may_repeat(&self, tool: &str) -> bool;
}

/// A call of a tool by a step.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Step that calls: `search`, or `each[3]` for an item of a `forEach`.
    pub step: String,
    /// Tool, as the definition names it.
    pub tool: String,
    /// Arguments of the tool.
    pub arguments: Map<String, Value>,
    /// Time that the tool has.
    pub deadline: Duration,
    /// Answers to the questions that the tool asked in an earlier round.
    pub answers: Option<Answers>,
}

/// Answers to the questions of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Answers by the keys of the questions.
    pub responses: Map<String, Value>,
    /// The tool's own state, as it came with the questions.
    pub state: Option<String>,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEnd {
    /// The tool's result.
    Complete {
        /// Its value: `structuredContent`, or what its content says.
        output: Value,
        /// Its `content`.
        content: Value,
    },
    /// No result; the text says why. The call may be repeated.
    Failed(String),
    /// No result, also if the call is repeated: it was denied, its arguments do not fit, or its result was
    /// withheld. The text says why.
    Refused(String),
    /// The tool asks the user first.
    Asks {
        /// Questions by key, each with `method` and `params`.
        questions: Map<String, Value>,
        /// The tool's own state.
        state: Option<String>,
    },
}

/// The begin of a run, or of its next part.
#[derive(Debug, Clone)]
pub enum Begin {
    /// A new run.
    New {
        /// Id of the run, for logs and audit.
        id: String,
        /// Arguments of the composite tool.
        arguments: Map<String, Value>,
    },
    /// A run that has asked the user, or whose process has ended.
    Continued {
        /// State that came with the questions, or that the [`Journal`] kept.
        state: String,
        /// Answers by the keys of the questions; a question without one is asked again.
        answers: Map<String, Value>,
    },
}

/// The end of a run, or of a part of it.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The result of the composite tool.
    Complete(Value),
    /// No result; the text says which step failed, and why.
    Failed(String),
    /// No result: the process ended while a step was under way that may not be repeated. The text names it.
    Unknown(String),
    /// Questions to the user.
    Asks {
        /// Questions by key, each with `method` and `params`.
        questions: Map<String, Value>,
        /// State of the run, for [`Begin::Continued`].
        state: String,
    },
}

/// The reason why a run cannot be continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContinueError {
    /// The state is of another version.
    #[error(
        "the state of the run cannot be read; check which steps have been carried out before you call again"
    )]
    Unreadable,
    /// The definition is another one now.
    #[error(
        "the composite tool has changed since the run began; check which steps have been carried out before \
         you call it again"
    )]
    Changed,
    /// The time of the run is over.
    #[error("the run had {0} and is over; check which steps have been carried out before you call again")]
    Late(String),
}

/// The end of a run, and its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Id of the run, the same over all of its parts.
    pub id: String,
    /// End of the run or of this part.
    pub end: End,
}

/// Runs a composite tool until it ends or asks. `now` is the time since the Unix epoch: a run that waits for
/// an answer has its time limit over all parts.
pub async fn run(
    tool: &Arc<CompositeTool>,
    caller: &impl ToolCaller,
    journal: &impl Journal,
    begin: Begin,
    now: Duration,
) -> Result<Finished, ContinueError> {
    driver::run(tool, caller, journal, begin, now).await
}

#[cfg(test)]
mod tests;
