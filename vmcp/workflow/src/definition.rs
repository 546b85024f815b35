//! Composite tools as validated: every template is read, every step known, no circle left.

mod graph;
mod hints;
mod output;
mod parameters;
mod read;
mod steps;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

pub use self::hints::{Hints, StepHints};
pub(crate) use self::output::{Output, Property as OutputProperty, PropertyForm};
use crate::mistakes::Mistake;
use crate::raw::{RawCompositeTool, RefusalAction};
use crate::template::Template;

/// The backend of composite tools, and the prefix of their names before a dot; no other backend has it.
pub const COMPOSITE: &str = "composite";
/// Most steps of one composite tool.
pub const MAX_STEPS: usize = 100;
/// Most items of a `forEach` step.
pub const MAX_ITERATIONS: usize = 1000;
/// Most calls of one run that are under way at once.
pub const MAX_PARALLEL: usize = 10;
/// Most further calls of a step that fails.
pub const MAX_RETRIES: u32 = 10;
/// Most bytes of a form's schema.
const MAX_SCHEMA: usize = 100 * 1024;
/// Deepest nesting of a form's schema.
const MAX_SCHEMA_DEPTH: usize = 10;
const RUN_TIMEOUT: Duration = Duration::from_mins(30);
const STEP_TIMEOUT: Duration = Duration::from_mins(5);
/// Most time of one run or one step.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

/// A composite tool that can be run.
#[derive(Debug)]
pub struct CompositeTool {
    /// Name, without the prefix of lists.
    pub name: String,
    /// Purpose of the tool, for models that choose it.
    pub description: String,
    /// Most time of a run.
    pub timeout: Duration,
    /// Hints that its author gave.
    pub hints: Hints,
    /// SHA-256 of the definition: a run continues under the same one only.
    pub hash: [u8; 32],
    pub(crate) parameters: Map<String, Value>,
    pub(crate) steps: Vec<Step>,
    pub(crate) output: Option<Output>,
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) id: String,
    /// Steps that must have ended: as written, and the steps that templates refer to.
    pub(crate) after: BTreeSet<usize>,
    pub(crate) condition: Option<Template>,
    pub(crate) action: Action,
    /// Output when the step has none of its own.
    pub(crate) default_results: Option<Value>,
    /// True if the run goes on when the step fails.
    pub(crate) may_fail: bool,
}

/// Action of a step.
#[derive(Debug)]
pub(crate) enum Action {
    Call(Call),
    Ask(Question),
    ForEach(ForEach),
}

impl Action {
    /// Returns the tool that the step calls, as the definition names it.
    pub(crate) fn tool(&self) -> Option<&str> {
        match self {
            Action::Call(call) => Some(&call.tool),
            Action::ForEach(each) => Some(&each.call.tool),
            Action::Ask(_) => None,
        }
    }
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Arguments,
    pub(crate) timeout: Duration,
    /// Further calls after a failure, and the pause before the first.
    pub(crate) retries: u32,
    pub(crate) retry_delay: Duration,
}

/// A question to the user.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) message: Template,
    pub(crate) schema: Map<String, Value>,
    pub(crate) on_decline: RefusalAction,
    pub(crate) on_cancel: RefusalAction,
    /// Most time until the answer; `None`: that of the run.
    pub(crate) timeout: Option<Duration>,
}

/// A call for each item of a list.
#[derive(Debug)]
pub(crate) struct ForEach {
    pub(crate) collection: Template,
    pub(crate) item: String,
    pub(crate) max_iterations: usize,
    pub(crate) max_parallel: usize,
    pub(crate) call: Call,
    /// True if the other items are still called after one has failed.
    pub(crate) items_may_fail: bool,
    /// Most time of all items together; `None`: that of the run.
    pub(crate) timeout: Option<Duration>,
}

/// Arguments of a tool: JSON whose texts are templates.
#[derive(Debug)]
pub(crate) enum Arguments {
    Constant(Value),
    Template(Template),
    List(Vec<Arguments>),
    Object(Vec<(String, Arguments)>),
}

/// Two are the same if they were written alike.
impl PartialEq for CompositeTool {
    fn eq(&self, other: &CompositeTool) -> bool {
        self.hash == other.hash
    }
}

impl CompositeTool {
    /// Validates a definition. The error lists all mistakes, by path.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_workflow::CompositeTool;
    ///
    /// let raw = serde_json::from_str(r#"{
    ///   "name": "greet",
    ///   "parameters": {"type": "object", "properties": {"who": {"type": "string"}}},
    ///   "steps": [{"id": "say", "tool": "echo.echo", "arguments": {"text": "Hello {{.params.who}}"}}]
    /// }"#).unwrap();
    /// let tool = CompositeTool::read(&raw).unwrap();
    /// assert_eq!(tool.tools(), ["echo.echo"]);
    /// ```
    pub fn read(raw: &RawCompositeTool) -> Result<CompositeTool, Vec<Mistake>> {
        read::read(raw)
    }

    /// Returns the tools that the steps call, each once, in their order.
    pub fn tools(&self) -> Vec<&str> {
        let mut tools: Vec<&str> = Vec::new();
        for step in &self.steps {
            let Some(tool) = step.action.tool() else { continue };
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        tools
    }

    /// True if a step asks the user.
    pub fn asks(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Ask(_)))
    }

    /// Returns the JSON Schema of the arguments.
    pub fn input_schema(&self) -> Value {
        parameters::schema(&self.parameters)
    }

    /// Returns the JSON Schema of the result; `None` if the definition has no `output`.
    pub fn output_schema(&self) -> Option<Value> {
        self.output.as_ref().map(Output::schema)
    }

    /// Returns the arguments with the defaults of their schema.
    pub(crate) fn with_defaults(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        parameters::with_defaults(&self.parameters, arguments)
    }
}

#[cfg(test)]
mod tests;
