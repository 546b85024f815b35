//! Arguments of execute_code, and of execute_tool_script.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use vmcp_config::{Code, format_duration};
use vmcp_script::names::is_identifier;

use crate::own_tools::arguments::dialect::Dialect;

use crate::answer::tool_result;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;

/// Longest script, in characters; a longer one is refused.
const MAX_CODE_CHARS: usize = 100_000;
/// Largest `context` or `data`, in bytes of JSON; a larger one is refused.
const MAX_CONTEXT_BYTES: usize = 1 << 20;
/// Longest `task`, in characters; a longer one is refused.
const MAX_TASK_CHARS: usize = 4_000;
/// The language that scripts are written in.
pub(super) const LANGUAGE: &str = "python";

/// Parsed arguments.
#[derive(Debug)]
pub(super) struct CodeArguments {
    /// The script; for a `task` the script of a language model, empty until it is written.
    pub(super) code: String,
    /// Words of which a language model makes the script.
    pub(super) task: Option<String>,
    /// A value for the script, also in the answer.
    pub(super) context: Option<Value>,
    /// `context` with the values of the references that it has; `None`: it has none.
    pub(super) context_with_values: Option<Value>,
    /// Values of names in a script of ToolHive; empty for others.
    pub(super) data: Map<String, Value>,
    /// Time limit of the script.
    pub(super) timeout: Duration,
    pub(super) dialect: Dialect,
    /// True for an operation on rows, which calls no tool.
    pub(super) is_over_rows: bool,
    /// For the answer: the reason for which a worker ran the script in place of a Job.
    pub(super) start_failure: Option<String>,
}

impl CodeArguments {
    /// Reads and checks the arguments of execute_tool_script, as ToolHive has them; fails with a result that
    /// a model reads.
    pub(super) fn parse_toolhive(
        arguments: &RawValue,
        limits: &Code,
    ) -> Result<CodeArguments, Box<RawValue>> {
        let read = || -> Result<CodeArguments, InputError> {
            let arguments = OwnArguments::parse(arguments)?;
            let code = arguments.required(&["script"], MAX_CODE_CHARS)?;
            let data: Option<Map<String, Value>> = arguments.read("data", "an object")?;
            let data = data.unwrap_or_default();
            check_size("data", &data)?;
            if data.keys().any(|name| !is_identifier(name)) {
                return Err(InputError::invalid(
                    "data",
                    "an object whose keys are names: letters, digits and _, and no word of Python",
                ));
            }
            let dialect = Dialect::ToolHive;
            let timeout = limits.timeout;
            Ok(CodeArguments {
                code,
                task: None,
                context: None,
                context_with_values: None,
                data,
                timeout,
                dialect,
                is_over_rows: false,
                start_failure: None,
            })
        };
        read().map_err(|error| tool_result::error(&error.to_string()))
    }

    /// Returns the value for the script.
    pub(super) fn script_context(&self) -> Option<&Value> {
        self.context_with_values.as_ref().or(self.context.as_ref())
    }

    /// Returns the script if a language model has written it.
    pub(super) fn written(&self) -> Option<&str> {
        self.task.is_some().then_some(self.code.as_str())
    }

    /// Reads and checks the arguments of execute_code; fails with a result that a model reads.
    pub(super) fn parse(arguments: &RawValue, limits: &Code) -> Result<CodeArguments, Box<RawValue>> {
        let mistake = |error: InputError| tool_result::error(&error.to_string());
        let arguments = OwnArguments::parse(arguments).map_err(mistake)?;
        let language = arguments.text(&["language"], 100).map_err(mistake)?;
        if let Some(language) = language.filter(|language| !language.eq_ignore_ascii_case(LANGUAGE)) {
            let error = json!({
                "success": false,
                "error": format!("Language '{language}' not supported"),
                "error_type": "ValueError",
                "supported_languages": [LANGUAGE],
            });
            return Err(tool_result::failure(&to_raw_value(&error).unwrap_or_default()));
        }
        let read = || -> Result<CodeArguments, InputError> {
            let task = arguments.text(&["task"], MAX_TASK_CHARS)?;
            let code = match &task {
                None => arguments.required(&["code"], MAX_CODE_CHARS)?,
                Some(_) if arguments.has("code") => {
                    let expected =
                        "absent if there is `code`: a task is words of which a language model makes a script";
                    return Err(InputError::invalid("task", expected));
                }
                Some(_) => String::new(),
            };
            let context: Option<Value> = arguments.read("context", "a JSON value")?;
            check_size("context", &context)?;
            let (timeout, dialect) = (timeout(&arguments, limits)?, Dialect::Python);
            Ok(CodeArguments {
                code,
                task,
                context,
                context_with_values: None,
                data: Map::new(),
                timeout,
                dialect,
                is_over_rows: false,
                start_failure: None,
            })
        };
        read().map_err(mistake)
    }
}

/// Fails for a value of more bytes than a script may be given.
fn check_size(field: &'static str, value: &impl Serialize) -> Result<(), InputError> {
    let (limit, unit) = (MAX_CONTEXT_BYTES, "bytes");
    let actual = serde_json::to_string(value).map_or(0, |text| text.len());
    if actual > limit { Err(InputError::TooLong { field, actual, limit, unit }) } else { Ok(()) }
}

/// Returns the time limit: `timeout_ms`, or `timeout` in seconds, or the configured one.
fn timeout(arguments: &OwnArguments<'_>, limits: &Code) -> Result<Duration, InputError> {
    let milliseconds: Option<u64> = arguments.read("timeout_ms", "a whole number of milliseconds")?;
    let seconds: Option<f64> = arguments.read("timeout", "a number of seconds")?;
    let (field, asked) = match (milliseconds, seconds) {
        (Some(milliseconds), _) => ("timeout_ms", Ok(Duration::from_millis(milliseconds))),
        (None, Some(seconds)) => ("timeout", Duration::try_from_secs_f64(seconds)),
        (None, None) => return Ok(limits.timeout),
    };
    asked.ok().filter(|asked| !asked.is_zero() && *asked <= limits.max_timeout).ok_or_else(|| {
        InputError::invalid(
            field,
            format_args!("more than 0 and at most {}", format_duration(limits.max_timeout)),
        )
    })
}
