//! Arguments of call_tool: parses and checks them. One signature accepts every name of a field that clients
//! use (`server_name` or `backend_id`, `parameters` or `arguments`, `tool_name` or `name`), and the forms
//! that models send: parameters as a JSON string, or beside the tool's name.

mod parameters;

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use vmcp_config::Limits;
use vmcp_json::object::Object;

use super::input::{InputError, at_most_chars, given, lenient, string};

/// Parsed arguments of call_tool: a call of another tool.
#[derive(Debug)]
pub(crate) struct CallArguments {
    /// The tool's listed name, or with `server` the name that the backend gave it.
    pub(crate) tool: String,
    /// The backend.
    pub(crate) server: Option<String>,
    /// The tool's arguments, a JSON object.
    pub(crate) parameters: Box<RawValue>,
    /// True if the arguments stood beside the tool's name, where frameworks put keys of their own.
    pub(crate) are_beside: bool,
    /// Deadline of this call; the backend's configured one if absent.
    pub(crate) timeout: Option<Duration>,
    /// The shape of the answer.
    pub(crate) format: ResponseFormat,
    /// The context within which the tool is called.
    pub(crate) context: Option<String>,
    /// True if the answer to a failed call names similar tools.
    pub(crate) include_fallbacks: bool,
    /// True if the result is to be kept, whatever its size.
    pub(crate) store_result: bool,
}

/// The shape of call_tool's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ResponseFormat {
    /// The tool's own `CallToolResult`, untouched.
    #[default]
    Mcp,
    /// An envelope around the result: `{success, server, tool, result}`.
    Envelope,
    /// An envelope that repeats nothing of the call: `{success, result}`.
    Compact,
}

/// Names of all fields; every other one is a parameter of the tool, if nothing else gives any.
const FIELDS: [&str; 8] = [
    "tool_name",
    "server_name",
    "backend_id",
    "parameters",
    "arguments",
    "timeout",
    "response_format",
    "include_fallbacks",
];

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    tool_name: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    server_name: Option<&'a RawValue>,
    #[serde(borrow)]
    backend_id: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    timeout: Option<&'a RawValue>,
    #[serde(borrow)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow)]
    include_fallbacks: Option<&'a RawValue>,
    #[serde(borrow)]
    store_result: Option<&'a RawValue>,
    #[serde(borrow)]
    context_id: Option<&'a RawValue>,
}

impl CallArguments {
    /// Reads and checks the arguments. `max_timeout` bounds `timeout`; `keeps_results` makes `store_result` a
    /// field. Unknown fields are the tool's
    /// parameters if no field gives any, else they are ignored.
    pub(crate) fn parse(
        arguments: &RawValue,
        limits: &Limits,
        max_timeout: Duration,
        keeps_results: bool,
    ) -> Result<CallArguments, InputError> {
        let name = |field, value| name(field, value, limits.tool_name_chars);
        let fields: Fields<'_> = serde_json::from_str(arguments.get())
            .map_err(|error| InputError::Unreadable(error.to_string()))?;
        let parameters = parameters::of_fields(fields.parameters, fields.arguments, limits)?;
        let named = match name("tool_name", fields.tool_name)? {
            Some(tool) => Some(tool),
            None if hoist(parameters.as_deref(), limits.tool_name_chars)?.is_some() => None,
            None => name("name", fields.name)?,
        };
        let are_beside = named.is_some() && parameters.is_none();
        let (tool, parameters) = match (named, parameters) {
            (Some(tool), Some(parameters)) => (tool, parameters),
            (Some(tool), None) => {
                // Beside `tool_name`, a `name` is a parameter of the tool.
                let alias = fields.name.filter(|_| fields.tool_name.is_none()).map(|_| "name");
                let store = keeps_results.then_some("store_result");
                let own: Vec<&str> = FIELDS.into_iter().chain(alias).chain(store).collect();
                (tool, parameters::beside(arguments, &own, limits)?)
            }
            (None, parameters) => {
                let hoisted = hoist(parameters.as_deref(), limits.tool_name_chars)?;
                hoisted.ok_or(InputError::Missing("tool_name"))?
            }
        };
        let server = match (name("server_name", fields.server_name)?, name("backend_id", fields.backend_id)?)
        {
            (Some(first), Some(second)) if first != second => {
                return Err(InputError::Contradiction { first: "server_name", second: "backend_id" });
            }
            (first, second) => first.or(second),
        };
        let format = given(fields.response_format);
        let format =
            format.map(|value| lenient("response_format", value, r#""mcp", "envelope" or "compact""#));
        let fallbacks = given(fields.include_fallbacks);
        let fallbacks = fallbacks.map(|value| lenient("include_fallbacks", value, "true or false"));
        let store = given(fields.store_result).filter(|_| keeps_results);
        let store = store.map(|value| lenient("store_result", value, "true or false"));
        let timeout = given(fields.timeout).map(|value| timeout(value, max_timeout)).transpose()?;
        Ok(CallArguments {
            tool,
            server,
            parameters,
            are_beside,
            timeout: timeout.flatten(),
            format: format.transpose()?.unwrap_or_default(),
            context: given(fields.context_id).map(|value| string("context_id", value)).transpose()?,
            include_fallbacks: fallbacks.transpose()?.unwrap_or(true),
            store_result: store.transpose()?.unwrap_or(false),
        })
    }
}

/// Returns a name, or `None` if it is absent or blank.
fn name(
    field: &'static str,
    value: Option<&RawValue>,
    max_chars: usize,
) -> Result<Option<String>, InputError> {
    let Some(value) = value else { return Ok(None) };
    let name = string(field, value)?;
    at_most_chars(field, &name, max_chars)?;
    Ok((!name.trim().is_empty()).then_some(name))
}

/// Takes `tool_name` out of `parameters`, where models sometimes put it. Called only if `tool_name` is absent
/// where it belongs; removed from there, so that a single name decides which tool is authorized and run.
fn hoist(
    parameters: Option<&RawValue>,
    max_chars: usize,
) -> Result<Option<(String, Box<RawValue>)>, InputError> {
    let unreadable = |error: &dyn std::fmt::Display| InputError::Unreadable(error.to_string());
    let Some(parameters) = parameters else { return Ok(None) };
    let object = Object::parse(parameters).map_err(|error| unreadable(&error))?;
    let Some(tool) = name("tool_name", object.get("tool_name"), max_chars)? else { return Ok(None) };
    let mut edit = object.edit();
    edit.remove("tool_name");
    let rest = edit.finish().into_raw().map_err(|error| unreadable(&error))?;
    Ok(Some((tool, rest)))
}

/// Reads a number of seconds, at most `max`; `None` for 0 or less, which models send for "no value".
fn timeout(value: &RawValue, max: Duration) -> Result<Option<Duration>, InputError> {
    let seconds: f64 = lenient("timeout", value, "a number of seconds")?;
    let timeout = Duration::try_from_secs_f64(seconds.clamp(0.0, max.as_secs_f64())).unwrap_or(max);
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const MAX: Duration = Duration::from_mins(5);

    fn parse(json: &str) -> Result<CallArguments, String> {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        CallArguments::parse(&raw, &Limits::default(), MAX, true).map_err(|error| error.to_string())
    }

    #[test]
    fn all_names_of_a_field_are_accepted() {
        for json in [
            r#"{"tool_name":"t","server_name":"s","parameters":{"a":1}}"#,
            r#"{"tool_name":"t","backend_id":"s","arguments":{"a":1}}"#,
            r#"{"tool_name":"t","backend_id":"s","server_name":"s","arguments":{"a":1},"parameters":{"a": 1}}"#,
            r#"{"tool_name":"t","server_name":"s","parameters":{"a":1},"arguments":null,"timeout":null,"x":1}"#,
        ] {
            let call = parse(json).unwrap();
            assert_eq!((call.tool.as_str(), call.server.as_deref()), ("t", Some("s")), "{json}");
            assert_eq!(serde_json::from_str::<Value>(call.parameters.get()).unwrap()["a"], 1, "{json}");
            assert_eq!((call.timeout, call.format), (None, ResponseFormat::Mcp));
        }
    }

    #[test]
    fn parameters_travel_as_they_were_written() {
        let call = parse(r#"{"tool_name":"t","parameters":{ "b":1.0e2, "a":"\u00e9" }}"#).unwrap();
        assert_eq!(call.parameters.get(), r#"{ "b":1.0e2, "a":"\u00e9" }"#);
        assert_eq!(parse(r#"{"tool_name":"t"}"#).unwrap().parameters.get(), "{}");
    }

    #[test]
    fn a_nested_tool_name_is_hoisted_only_when_there_is_no_other() {
        let call = parse(r#"{"tool_name":"","parameters":{"tool_name":"x_echo","msg":"hi"}}"#).unwrap();
        assert_eq!((call.tool.as_str(), call.parameters.get()), ("x_echo", r#"{"msg":"hi"}"#));
        let call = parse(r#"{"tool_name":"own","parameters":{"tool_name":"x_echo"}}"#).unwrap();
        assert_eq!((call.tool.as_str(), call.parameters.get()), ("own", r#"{"tool_name":"x_echo"}"#));
    }

    #[test]
    fn parameters_may_be_a_string_or_stand_beside_the_name() {
        for json in [
            r#"{"tool_name":"t","parameters":"{\"a\":1}"}"#,
            r#"{"tool_name":"t","a":1}"#,
            r#"{"tool_name":"t","a":1,"parameters":null,"server_name":"s"}"#,
            r#"{"name":"t","arguments":{"a":1}}"#,
            r#"{"tool_name":"t","name":"x","parameters":{"a":1}}"#,
            r#"{"name":"t","a":1}"#,
        ] {
            let call = parse(json).unwrap();
            assert_eq!((call.tool.as_str(), call.parameters.get()), ("t", r#"{"a":1}"#), "{json}");
        }
        let named = parse(r#"{"tool_name":"t","name":"x"}"#).unwrap();
        assert_eq!(named.parameters.get(), r#"{"name":"x"}"#);
        assert_eq!(parse(r#"{"tool_name":"t","parameters":""}"#).unwrap().parameters.get(), "{}");
        let both = parse(r#"{"tool_name":"t","parameters":{},"a":1}"#).unwrap();
        assert_eq!(both.parameters.get(), "{}", "parameters that are given count, empty ones too");
    }

    #[test]
    fn store_result_is_a_field_only_where_results_are_kept() {
        assert!(parse(r#"{"tool_name":"t","parameters":{},"store_result":"true"}"#).unwrap().store_result);
        let raw: Box<RawValue> = serde_json::from_str(r#"{"tool_name":"t","store_result":true}"#).unwrap();
        let read = |keeps| CallArguments::parse(&raw, &Limits::default(), MAX, keeps).unwrap();
        assert_eq!((read(true).parameters.get(), read(true).store_result), ("{}", true));
        assert_eq!(
            (read(false).parameters.get(), read(false).store_result),
            (r#"{"store_result":true}"#, false)
        );
    }

    #[test]
    fn timeout_and_format() {
        let call = parse(r#"{"tool_name":"t","timeout":1.5,"response_format":"envelope"}"#).unwrap();
        assert_eq!(
            (call.timeout, call.format),
            (Some(Duration::from_millis(1500)), ResponseFormat::Envelope)
        );
    }

    #[test]
    fn own_fields_are_read_as_models_write_them() {
        let call =
            |fields: &str| parse(&format!(r#"{{"tool_name":"t","parameters":{{}},{fields}}}"#)).unwrap();
        for (written, seconds) in [
            ("\"30\"", Some(30)),
            ("30.0", Some(30)),
            ("0", None),
            ("-1", None),
            ("\"\"", None),
            ("1e300", Some(300)),
            ("301", Some(300)),
        ] {
            let timeout = call(&format!(r#""timeout":{written}"#)).timeout;
            assert_eq!(timeout, seconds.map(Duration::from_secs), "{written}");
        }
        for (written, format) in [
            ("\"\"", ResponseFormat::Mcp),
            ("null", ResponseFormat::Mcp),
            ("\"Envelope\"", ResponseFormat::Envelope),
            ("\"compact\"", ResponseFormat::Compact),
        ] {
            assert_eq!(call(&format!(r#""response_format":{written}"#)).format, format, "{written}");
        }
        for (written, named) in
            [("\"true\"", true), ("\"False\"", false), ("0", false), ("null", true), ("\"\"", true)]
        {
            let fields = format!(r#""include_fallbacks":{written},"server_name":"","context_id":"""#);
            let call = call(&fields);
            assert_eq!((call.include_fallbacks, call.server, call.context), (named, None, None), "{written}");
        }
        for empty in ["[]", "\"\"", "\"null\"", "null"] {
            let call = parse(&format!(r#"{{"tool_name":"t","parameters":{empty}}}"#)).unwrap();
            assert_eq!(call.parameters.get(), "{}", "{empty}");
        }
    }

    #[test]
    fn every_mistake_names_its_field_and_limit() {
        let deep = format!("{}1{}", "[".repeat(64), "]".repeat(64));
        let cases = [
            ("7".to_owned(), "arguments must be a JSON object"),
            ("{}".to_owned(), "tool_name is required"),
            (r#"{"tool_name":" ","parameters":{}}"#.to_owned(), "tool_name is required"),
            (r#"{"tool_name":["t"]}"#.to_owned(), "tool_name must be a string"),
            (
                format!(r#"{{"tool_name":"{}"}}"#, "n".repeat(129)),
                "tool_name is too long: 129 characters, the limit is 128",
            ),
            (r#"{"tool_name":"t","parameters":[1]}"#.to_owned(), "parameters must be an object"),
            (r#"{"tool_name":"t","arguments":"x"}"#.to_owned(), "arguments must be an object"),
            (r#"{"tool_name":"t","arguments":"[1]"}"#.to_owned(), "arguments must be an object"),
            (
                r#"{"tool_name":"t","arguments":{"a":1},"parameters":{"a":2}}"#.to_owned(),
                "parameters and arguments are two names of one field",
            ),
            (
                r#"{"tool_name":"t","server_name":"a","backend_id":"b"}"#.to_owned(),
                "server_name and backend_id are two names of one field",
            ),
            (
                format!(r#"{{"tool_name":"t","parameters":{{"a":{deep}}}}}"#),
                "parameters is too long: 65 levels of nesting, the limit is 64",
            ),
            (
                format!(r#"{{"tool_name":"t","parameters":{{"a":"{}"}}}}"#, "x".repeat(1 << 20)),
                "parameters is too long: 1048584 bytes, the limit is 1048576",
            ),
            (r#"{"tool_name":"t","timeout":"soon"}"#.to_owned(), "timeout must be a number of seconds"),
            (
                r#"{"tool_name":"t","include_fallbacks":"no"}"#.to_owned(),
                "include_fallbacks must be true or false",
            ),
            (r#"{"tool_name":"t","response_format":"xml"}"#.to_owned(), "response_format must be"),
            (r#"{"tool_name":"a","tool_name":"b"}"#.to_owned(), "arguments must be a JSON object"),
        ];
        for (json, message) in cases {
            let error = parse(&json).unwrap_err();
            assert!(error.starts_with(message), "{}: {error}", json.get(..80).unwrap_or(&json));
        }
    }
}
