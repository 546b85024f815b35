//! `code`: engine and limits of scripts, which the tools `execute_code` and `execute_tool_script` run.

pub(crate) mod job;
pub(crate) mod script_model;

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::job::{CodeJob, RawCodeEngine, RawCodeJob};
use self::script_model::ScriptModel;
use crate::problems::Report;
use crate::values::duration::{self, RawDuration};

/// Range of both time limits, from 100 ms to 1 h.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

/// Validated limits of scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Time of a script that names none.
    pub timeout: Duration,
    /// Longest time that a script may ask for.
    pub max_timeout: Duration,
    /// Memory of a script, in MiB.
    pub memory_mebibytes: u32,
    /// Calls of one script.
    pub max_calls: usize,
    /// Calls of one script at the same time.
    pub max_parallel: usize,
    /// Bytes that a script may print.
    pub max_output_bytes: usize,
    /// Bytes of a script's result as JSON.
    pub max_result_bytes: usize,
    /// Worker processes that wait for a script.
    pub warm_workers: usize,
    /// Scripts that run at the same time.
    pub max_running: usize,
    /// Of them, those of one client.
    pub max_running_per_client: usize,
    /// Longest time of one call of a script; `None`: that of the tool.
    pub call_timeout: Option<Duration>,
    /// True if the shapes of results are learned, for the signatures of tools.
    pub observed_shapes: bool,
    /// Language model that writes the script of a task in words.
    pub llm: ScriptModel,
    /// Jobs of scripts; `None`: they run in worker processes.
    pub job: Option<CodeJob>,
}

/// Limits of scripts. They run when `execute_code` or `execute_tool_script` is among `optimizer.tools`;
/// neither is by default.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Code")]
pub struct RawCode {
    /// Engine that runs scripts.
    pub engine: RawCodeEngine,
    /// Language model that writes the script of a `task` in words, which `execute_code` takes in place of
    /// `code`.
    pub llm: ScriptModel,
    /// Jobs of scripts; for `engine: job`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<RawCodeJob>,
    /// Time limit of a script that asks for none, calls of tools included. Beyond it, the script is ended.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Longest time limit that a script may ask for.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub max_timeout: RawDuration,
    /// Memory of a script in MiB; beyond it, the script is ended.
    #[schemars(range(min = 16, max = 4096))]
    pub memory_mebibytes: u32,
    /// Calls of tools, searches and descriptions of one script; one more ends it.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_calls: usize,
    /// Calls that `parallel` makes at the same time; further ones wait.
    #[schemars(range(min = 1, max = 100))]
    pub max_parallel: usize,
    /// Bytes that a script may print; beyond them, it is ended.
    #[schemars(range(min = 1024, max = 10_485_760))]
    pub max_output_bytes: usize,
    /// Bytes of a script's result as JSON; a longer one is an error in its place.
    #[schemars(range(min = 1024, max = 10_485_760))]
    pub max_result_bytes: usize,
    /// Worker processes that wait for a script, about 10 MiB each. `0`: each script starts its own.
    #[schemars(range(max = 16))]
    pub warm_workers: usize,
    /// Scripts that run at the same time; one more is refused.
    #[schemars(range(min = 1, max = 256))]
    pub max_running: usize,
    /// Scripts of one client that run at the same time; one more is refused.
    #[schemars(range(min = 1, max = 256))]
    pub max_running_per_client: usize,
    /// Time limit of one call of a script, if it is shorter than the time limit of the tool; beyond it, the
    /// call fails, and the script may catch that. Default: the time limit of the tool.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub call_timeout: Option<RawDuration>,
    /// Learn types and keys of the results of tools without `outputSchema`, but no values,
    /// and show them in the tools' signatures. A key is shown to the clients whose results had it, and to
    /// all once three clients had it. Default: on while a tool that runs scripts is among
    /// `optimizer.tools`, unless `optimizer.learning.enabled` is `false`.
    pub observed_shapes: Option<bool>,
}

impl Default for RawCode {
    fn default() -> Self {
        Self {
            engine: RawCodeEngine::default(),
            llm: ScriptModel::Configured,
            job: None,
            timeout: "30s".into(),
            max_timeout: "2m".into(),
            memory_mebibytes: 128,
            max_calls: 100,
            max_parallel: 10,
            max_output_bytes: 64 << 10,
            max_result_bytes: 256 << 10,
            warm_workers: 1,
            max_running: 8,
            max_running_per_client: 2,
            call_timeout: None,
            observed_shapes: None,
        }
    }
}

impl RawCode {
    /// `shapes_by_default`: shapes are learned if this block does not say.
    pub(crate) fn validate(&self, shapes_by_default: bool, report: &mut Report) -> Code {
        let max_timeout = self.max_timeout.validate("code.maxTimeout", &TIMEOUT, report);
        let timeout = self.timeout.validate("code.timeout", &TIMEOUT, report);
        if timeout > max_timeout {
            let remedy = "lower it, or raise `code.maxTimeout`";
            report.problem("code.timeout", "longer than `code.maxTimeout`", remedy);
        }
        Code {
            timeout,
            max_timeout,
            memory_mebibytes: self.memory_mebibytes,
            max_calls: self.max_calls,
            max_parallel: self.max_parallel,
            max_output_bytes: self.max_output_bytes,
            max_result_bytes: self.max_result_bytes,
            warm_workers: self.warm_workers,
            max_running: self.max_running,
            max_running_per_client: self.max_running_per_client,
            call_timeout: self
                .call_timeout
                .as_ref()
                .map(|limit| limit.validate("code.callTimeout", &TIMEOUT, report)),
            observed_shapes: self.observed_shapes.unwrap_or(shapes_by_default),
            llm: self.llm,
            job: job::validate(self.engine, self.job.as_ref(), self.memory_mebibytes, report),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_have_defaults_and_bounds() {
        let load = |text: &str| crate::load(text, "vmcp.yaml", &|_| None);
        let code = load("backends: []").unwrap().config.code;
        assert_eq!((code.timeout.as_secs(), code.max_calls, code.max_parallel), (30, 100, 10));
        assert_eq!((code.call_timeout, code.observed_shapes), (None, false));
        let problems = load("code: { callTimeout: 1ms }").unwrap_err().to_string();
        assert!(problems.contains("code.callTimeout"), "{problems}");
        let problems = load("code: { timeout: 3m, maxCalls: 0 }").unwrap_err().to_string();
        assert!(problems.contains("code.maxCalls"), "{problems}");
        let problems = load("code: { timeout: 3m }").unwrap_err().to_string();
        assert!(problems.contains("code.timeout: longer than `code.maxTimeout`"), "{problems}");
    }

    #[test]
    fn a_model_writes_scripts_where_one_is_configured() {
        let load = |text: &str| crate::load(text, "vmcp.yaml", &|_| None);
        let is_offered = |text: &str| {
            let config = load(text).unwrap().config;
            config.code.llm.is_offered(config.optimizer.llm.is_some())
        };
        assert!(!is_offered("backends: []"));
        assert!(is_offered("optimizer: { llm: { model: m } }"));
        assert!(is_offered("code: { llm: any }"));
        assert!(!is_offered("optimizer: { llm: { model: m } }\ncode: { llm: 'off' }"));
        let problems = load("code: { llm: sometimes }").unwrap_err().to_string();
        assert!(problems.contains("code.llm"), "{problems}");
    }

    #[test]
    fn shapes_are_learned_for_scripts_unless_learning_is_off() {
        let learns =
            |text: &str| crate::load(text, "vmcp.yaml", &|_| None).unwrap().config.code.observed_shapes;
        assert!(learns("optimizer: { tools: [find_tool, execute_code] }"));
        assert!(learns("optimizer: { tools: [execute_tool_script] }"));
        assert!(!learns("optimizer: { tools: [find_tool, call_tool] }"));
        assert!(!learns("optimizer: { tools: [execute_code], learning: { enabled: false } }"));
        assert!(!learns("optimizer: { tools: [execute_code] }\ncode: { observedShapes: false }"));
    }
}
