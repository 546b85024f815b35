//! Arguments of execute_code.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::{Code, format_duration};

use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::tool_result;

/// Longest script, in characters; a longer one is refused.
const MAX_CODE_CHARS: usize = 100_000;
/// Largest context, in bytes of JSON; a larger one is refused.
const MAX_CONTEXT_BYTES: usize = 1 << 20;
/// The language that scripts are written in.
pub(super) const LANGUAGE: &str = "python";

/// Parsed arguments of execute_code.
#[derive(Debug)]
pub(super) struct CodeArguments {
    /// The script.
    pub(super) code: String,
    /// A value for the script, also in the answer.
    pub(super) context: Option<Value>,
    /// Time limit of the script.
    pub(super) timeout: Duration,
}

impl CodeArguments {
    /// Reads and checks the arguments; fails with a result that a model reads.
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
            let code = arguments.required(&["code"], MAX_CODE_CHARS)?;
            let context: Option<Value> = arguments.read("context", "a JSON value")?;
            let size = context.as_ref().map_or(0, |context| context.to_string().len());
            if size > MAX_CONTEXT_BYTES {
                let (field, limit) = ("context", MAX_CONTEXT_BYTES);
                return Err(InputError::TooLong { field, actual: size, limit, unit: "bytes" });
            }
            Ok(CodeArguments { code, context, timeout: timeout(&arguments, limits)? })
        };
        read().map_err(mistake)
    }
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
