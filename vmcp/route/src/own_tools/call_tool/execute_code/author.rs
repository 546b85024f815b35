//! [`Author`]: a language model that writes the script of a task in words. It writes, and the sandbox runs:
//! its script has the limits, the rights and the checks of any other.
//!
//! The model sees the task, signatures of tools that the caller may call, and types and keys of `CONTEXT`.
//! It sees no value, except one that the error of a failed script quotes. Signatures have words of servers,
//! which may try to steer the model: its script can call the tools that the caller may call, and the answer
//! shows it.

mod prompt;

use serde_json::value::to_raw_value;
use vmcp_config::ScriptModel;
use vmcp_results::{Content, describe_shape};
use vmcp_script::protocol::Failure;

use super::call_arguments::CodeArguments;
use super::host::fitting;
use crate::caller::CallContext;
use crate::own_tools::arguments::dialect::Dialect;
use crate::own_tools::find_tool::signatures::signature;
use crate::own_tools::listings::language_model::{LanguageModel, MAX_SCRIPT_TOKENS, MISSING};

/// Tools in the prompt; a script finds others by `search_tools`.
const MAX_TOOLS: usize = 12;
/// Most bytes of the shape of `CONTEXT`.
const MAX_SHAPE_BYTES: usize = 2_000;
/// Failures that another script would not change, or that leave no time for one.
const NOT_REPAIRED: [&str; 7] = [
    "BusyError",
    "EvictedError",
    "StartError",
    "SuspendError",
    "SuspendLimitError",
    "TimeoutError",
    "WorkerError",
];
/// The answer of a server whose administrator forbids the model.
const OFF: &str = "task: `code.llm` of this server is `off`; send a script as `code`";
/// The answer of a server without a model that may not ask the client's.
const NOT_CONFIGURED: &str = "task: there is no language model: `optimizer.llm` names none, and only `code.llm: any` asks the \
                              client's own; send a script as `code`";
/// Another way, for the caller.
const INSTEAD: &str = "use other words, or send a script as `code`";

/// A language model at work on one task.
pub(super) struct Author<'a> {
    context: CallContext<'a>,
    model: LanguageModel<'a>,
    /// The prompt of the task.
    first: String,
    /// The prompt that is sent next.
    next: String,
    asks_left: usize,
}

impl<'a> Author<'a> {
    /// Prepares the prompt of a task; fails without a model that may be asked.
    pub(super) async fn new(
        context: CallContext<'a>,
        task: &str,
        arguments: &CodeArguments,
    ) -> Result<Author<'a>, String> {
        let llm = context.snapshot.config.code.llm;
        if llm == ScriptModel::Off {
            return Err(OFF.to_owned());
        }
        let may_sample = llm == ScriptModel::Any;
        let model = LanguageModel::available(context, may_sample).ok_or_else(|| {
            if may_sample {
                format!("task: {MISSING}; send a script as `code`")
            } else {
                NOT_CONFIGURED.to_owned()
            }
        })?;
        let tools = fitting(context, task, MAX_TOOLS).await;
        let signatures = tools.into_iter().map(|tool| signature(context, tool, Dialect::Python));
        let shape = arguments.script_context().map(|value| {
            let json = to_raw_value(value).unwrap_or_default();
            describe_shape(&Content::of_json(&json), MAX_SHAPE_BYTES)
        });
        let first = prompt::first(task, shape.as_deref(), signatures);
        let asks_left = model.max_turns(context);
        Ok(Author { context, model, next: first.clone(), first, asks_left })
    }

    /// Has the model write a script. An answer without one counts as a script that failed.
    pub(super) async fn write(&mut self) -> Result<String, String> {
        let metrics = self.context.engine.metrics();
        let mut reason = "";
        while self.asks_left > 0 {
            self.asks_left -= 1;
            metrics.script_model_asks.inc();
            let asked = self.model.ask_at_length(prompt::SYSTEM, &self.next, MAX_SCRIPT_TOKENS).await;
            let answer = match asked {
                Ok(answer) => answer,
                Err(reason) => {
                    metrics.script_model_failures.inc();
                    return Err(format!("task: the language model did not answer ({reason}); {INSTEAD}"));
                }
            };
            match prompt::read(&answer) {
                Ok(script) => return Ok(script),
                Err(error) => {
                    self.next = prompt::second(&self.first, &answer, error);
                    reason = error;
                }
            }
        }
        metrics.script_model_failures.inc();
        Err(format!("task: the language model wrote no script ({reason}); {INSTEAD}"))
    }

    /// Has the model write another script in place of a failed one. `None`: the failure stands, also if the
    /// script may have changed something, which a second one would repeat.
    pub(super) async fn repair(
        &mut self,
        script: &str,
        failure: &Failure,
        may_have_changed: bool,
    ) -> Option<String> {
        let is_hopeless = NOT_REPAIRED.contains(&failure.error_type.as_str());
        if is_hopeless || may_have_changed || self.asks_left == 0 {
            self.context.engine.metrics().script_model_failures.inc();
            return None;
        }
        let line = failure.line.map(|line| format!(" in line {line}")).unwrap_or_default();
        let reason = format!("{}{line}: {}", failure.error_type, failure.error);
        self.next = prompt::second(&self.first, script, &reason);
        // The error of the script says more than that of the model.
        self.write().await.ok()
    }
}
