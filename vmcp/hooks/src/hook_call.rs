//! [`HookCall`]: one hook, as `call_hook` and `POST /hooks/execute` take it: `{hook_type, params, source}`.
//! Clients write the same names of parameters into their own payloads.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::hook_type::HookType;

/// An object with its fields unread. Fields that no hook has cost no more than their text.
#[derive(Debug, Default)]
pub(crate) struct RawFields(BTreeMap<String, Box<RawValue>>);

impl RawFields {
    /// Returns a field as it is written.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(|value| &**value)
    }
}

impl<'de> Deserialize<'de> for RawFields {
    /// Refuses a repeated key: a policy could have read the other one.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawFields, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.insert(name, value).is_some() {
                        return Err(A::Error::custom("a key is repeated"));
                    }
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Longest type that is repeated in an error, in characters; a longer one is cut.
const MAX_TYPE_CHARS: usize = 64;
/// Most characters of `source`.
const MAX_SOURCE_CHARS: usize = 64;
/// Most characters of an id: of the session, the machine, the project.
const MAX_ID_CHARS: usize = 256;
/// Most characters of a path.
const MAX_PATH_CHARS: usize = 4096;
/// Most characters of the detail of an event; a longer one is cut.
const MAX_DETAIL_CHARS: usize = 200;
/// Bytes of a prompt that are looked at; the rest is ignored.
const MAX_PROMPT_BYTES: usize = 16 * 1024;
/// Name of a client that does not say its own.
const UNKNOWN_SOURCE: &str = "unknown";

/// A hook that cannot be taken. The text is for the program or the model that sent it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// No hook has this type.
    #[error("unknown hook_type `{0}`; known are {known}", known = HookType::available().join(", "))]
    UnknownType(String),
    /// A required field is absent.
    #[error("{0} is required")]
    Missing(&'static str),
    /// A field has another type, or a value that is not known.
    #[error("{field} must be {expected}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The accepted values.
        expected: &'static str,
    },
    /// A field is too long.
    #[error("{field} is too long: {actual} characters, the limit is {limit}")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length in characters.
        actual: usize,
        /// The largest length.
        limit: usize,
    },
}

impl HookError {
    /// Returns the error of a payload that has the parameters at its top: their names without `params.`.
    fn at_top(self) -> HookError {
        let bare = |field: &'static str| field.strip_prefix("params.").unwrap_or(field);
        match self {
            HookError::UnknownType(name) => HookError::UnknownType(name),
            HookError::Missing(field) => HookError::Missing(bare(field)),
            HookError::Invalid { field, expected } => HookError::Invalid { field: bare(field), expected },
            HookError::TooLong { field, actual, limit } => {
                HookError::TooLong { field: bare(field), actual, limit }
            }
        }
    }
}

/// Reason for which a session starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartSource {
    /// A new session.
    #[default]
    Startup,
    /// An earlier session goes on.
    Resume,
    /// The person cleared the context: a new session takes over from the one before.
    Clear,
    /// The client compacted the context of the same session.
    Compact,
    /// A new session branches off another one.
    Fork,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCall {
    /// The type as the client wrote it.
    pub written_type: String,
    /// The type.
    pub hook_type: HookType,
    /// The client, in lower case: `claude`, `codex`. A thread of Codex behind vmcp has `Codex`.
    pub source: String,
    /// The parameters.
    pub params: HookParams,
}

/// The parameters of a hook. Further ones are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookParams {
    /// Id of the session at the client, or the id that an earlier answer gave it.
    pub session_id: Option<String>,
    /// Id of the client's machine.
    pub machine_id: Option<String>,
    /// Project; without one, the working directory stands for it.
    pub project_id: Option<String>,
    /// Working directory of the client.
    pub cwd: Option<String>,
    /// Reason of a start.
    pub start: StartSource,
    /// The prompt, cut to 16 KiB.
    pub prompt: Option<String>,
    /// The transcript: text, or a JSON message a line.
    pub transcript: Option<String>,
    /// Path of the transcript at the client.
    pub transcript_path: Option<String>,
    /// The summary that the client itself made while it compacted.
    pub compact_summary: Option<String>,
    /// Name of the tool, the trigger, the subagent or the reason, for the record of the event.
    pub detail: Option<String>,
}

impl HookCall {
    /// Reads the arguments `{hook_type, params?, source?}`, a JSON object.
    pub fn read(arguments: &str) -> Result<HookCall, HookError> {
        let arguments = fields(arguments, "arguments")?;
        let written = text(&arguments, "hook_type", "hook_type", usize::MAX)?;
        let written = written.ok_or(HookError::Missing("hook_type"))?;
        let params = match arguments.get("params").filter(|params| params.get() != "null") {
            Some(params) => fields(params.get(), "params")?,
            None => RawFields::default(),
        };
        let source = text(&arguments, "source", "source", MAX_SOURCE_CHARS)?;
        let start = start_source(&params)?;
        HookCall::of_type(&written, source.as_deref().unwrap_or(UNKNOWN_SOURCE), &params, start)
    }

    /// Reads a hook of a known client, whose payload has the parameters. A reason of a start that only a
    /// newer client knows counts as a new session: the start must not be lost.
    pub(crate) fn of_client(written: &str, source: &str, payload: &RawFields) -> Result<HookCall, HookError> {
        let start = start_source(payload).unwrap_or_default();
        HookCall::of_type(written, source, payload, start).map_err(HookError::at_top)
    }

    fn of_type(
        written: &str,
        source: &str,
        params: &RawFields,
        start: StartSource,
    ) -> Result<HookCall, HookError> {
        let written_type: String = written.chars().take(MAX_TYPE_CHARS).collect();
        let hook_type =
            HookType::from_name(written).ok_or_else(|| HookError::UnknownType(written_type.clone()))?;
        let params = HookParams { start, ..HookParams::read(params)? };
        if params.session_id.is_none() && hook_type != HookType::SessionStart {
            return Err(HookError::Missing("params.session_id"));
        }
        Ok(HookCall { written_type, hook_type, source: source.to_lowercase(), params })
    }

    /// Returns the project of a session that this hook registers.
    pub fn project(&self) -> &str {
        let HookParams { project_id, cwd, .. } = &self.params;
        project_id.as_deref().or(cwd.as_deref()).unwrap_or_default()
    }

    /// True if the hook ends the session, or clears its context, so that a summary is made of the transcript.
    pub fn hands_off(&self) -> bool {
        self.hook_type == HookType::SessionEnd || self.is_command("/clear")
    }

    /// True if the hook wants a summary of the transcript.
    pub fn wants_summary(&self) -> bool {
        self.hands_off() || self.hook_type == HookType::PreCompact
    }

    /// True for a prompt that is a command of the client, such as `/exit`.
    pub fn is_command(&self, command: &str) -> bool {
        self.hook_type == HookType::PromptSubmit
            && self.params.prompt.as_deref().map(str::trim).is_some_and(|prompt| {
                prompt.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            })
    }
}

impl HookParams {
    fn read(params: &RawFields) -> Result<HookParams, HookError> {
        let id = |name, field| text(params, name, field, MAX_ID_CHARS);
        let path = |name, field| text(params, name, field, MAX_PATH_CHARS);
        Ok(HookParams {
            session_id: id("session_id", "params.session_id")?,
            machine_id: id("machine_id", "params.machine_id")?,
            project_id: id("project_id", "params.project_id")?,
            cwd: path("cwd", "params.cwd")?,
            start: StartSource::default(),
            prompt: prompt(params)?,
            transcript: transcript(params)?,
            transcript_path: path("transcript_path", "params.transcript_path")?,
            compact_summary: text(params, "compact_summary", "params.compact_summary", usize::MAX)?,
            detail: detail(params),
        })
    }
}

/// Reads an object, and leaves its fields unread.
pub(crate) fn fields(object: &str, field: &'static str) -> Result<RawFields, HookError> {
    let invalid = |_| HookError::Invalid { field, expected: "a JSON object without repeated keys" };
    serde_json::from_str(object).map_err(invalid)
}

/// Returns a text of at most `limit` characters; `None` if it is absent, null or blank.
pub(crate) fn text(
    map: &RawFields,
    name: &str,
    field: &'static str,
    limit: usize,
) -> Result<Option<String>, HookError> {
    let Some(value) = map.get(name) else { return Ok(None) };
    let read = serde_json::from_str::<Option<String>>(value.get());
    let Some(read) = read.map_err(|_| HookError::Invalid { field, expected: "a string" })? else {
        return Ok(None);
    };
    let text = read.trim();
    if text.len() > limit {
        let actual = text.chars().count();
        if actual > limit {
            return Err(HookError::TooLong { field, actual, limit });
        }
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

fn start_source(params: &RawFields) -> Result<StartSource, HookError> {
    let expected = "startup, resume, clear, compact or fork";
    let field = "params.source";
    let Some(written) = text(params, "source", field, MAX_SOURCE_CHARS)? else {
        return Ok(StartSource::default());
    };
    Ok(match written.to_lowercase().as_str() {
        "startup" => StartSource::Startup,
        "resume" => StartSource::Resume,
        "clear" => StartSource::Clear,
        "compact" => StartSource::Compact,
        "fork" => StartSource::Fork,
        _ => return Err(HookError::Invalid { field, expected }),
    })
}

fn prompt(params: &RawFields) -> Result<Option<String>, HookError> {
    let prompt = text(params, "prompt", "params.prompt", usize::MAX)?;
    Ok(prompt.map(|mut prompt| {
        prompt.truncate(prompt.floor_char_boundary(MAX_PROMPT_BYTES));
        prompt
    }))
}

/// Returns the transcript: a text as it is, a list as a message a line.
fn transcript(params: &RawFields) -> Result<Option<String>, HookError> {
    let Some(written) = params.get("transcript").map(RawValue::get) else { return Ok(None) };
    let invalid =
        |_| HookError::Invalid { field: "params.transcript", expected: "a text or a list of messages" };
    if !written.starts_with('[') {
        let read = serde_json::from_str::<Option<String>>(written).map_err(invalid)?;
        return Ok(read.filter(|text| !text.trim().is_empty()));
    }
    let messages: Vec<&RawValue> = serde_json::from_str(written).map_err(invalid)?;
    // A line break between two tokens is a blank; within a string it is written as an escape.
    let lines: Vec<_> = messages.iter().map(|message| message.get().replace(['\n', '\r'], " ")).collect();
    Ok(Some(lines.join("\n")).filter(|lines| !lines.is_empty()))
}

/// Returns one word about the event. Arguments and answers of tools are not among them.
fn detail(params: &RawFields) -> Option<String> {
    let names = ["tool_name", "trigger", "agent_type", "notification_type", "reason"];
    let found = names.iter().find_map(|name| text(params, name, name, usize::MAX).ok().flatten());
    found.map(|text| text.chars().take(MAX_DETAIL_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<HookCall, HookError> {
        HookCall::read(&value.to_string())
    }

    #[test]
    fn a_list_of_messages_is_a_message_a_line() {
        let call = "{\"hook_type\": \"SessionEnd\", \"params\": {\"session_id\": \"s\", \"transcript\": [{\"role\":\n\"user\"}, 1]}}";
        let call = HookCall::read(call).unwrap();
        assert_eq!(call.params.transcript.as_deref(), Some("{\"role\": \"user\"}\n1"));
    }

    #[test]
    fn the_example_of_the_tool_is_read() {
        let call = read(&json!({
            "hook_type": "SessionStart",
            "params": {"session_id": "codex-abc123", "source": "startup", "cwd": "/path/to/project"},
            "source": "Codex",
        }))
        .unwrap();
        assert_eq!((call.hook_type, call.source.as_str()), (HookType::SessionStart, "codex"));
        assert_eq!((call.params.start, call.project()), (StartSource::Startup, "/path/to/project"));
    }

    #[test]
    fn mistakes_name_their_field() {
        let error = |value: Value| read(&value).unwrap_err().to_string();
        assert_eq!(error(json!({})), "hook_type is required");
        assert_eq!(error(json!({"hook_type": 1})), "hook_type must be a string");
        let repeated = HookCall::read(r#"{"hook_type": "Stop", "hook_type": "SessionEnd"}"#).unwrap_err();
        assert!(repeated.to_string().ends_with("without repeated keys"), "{repeated}");
        assert_eq!(error(json!({"hook_type": "Stop"})), "params.session_id is required");
        assert_eq!(
            error(json!({"hook_type": "Stop", "params": []})),
            "params must be a JSON object without repeated keys"
        );
        let long = "x".repeat(257);
        assert_eq!(
            error(json!({"hook_type": "Stop", "params": {"session_id": long}})),
            "params.session_id is too long: 257 characters, the limit is 256"
        );
        assert_eq!(
            error(json!({"hook_type": "SessionStart", "params": {"source": "later"}})),
            "params.source must be startup, resume, clear, compact or fork"
        );
        assert_eq!(
            error(json!({"hook_type": "SessionEnd", "params": {"session_id": "s", "transcript": {}}})),
            "params.transcript must be a text or a list of messages"
        );
        let unknown = error(json!({"hook_type": "y".repeat(300)}));
        assert!(unknown.starts_with(&format!("unknown hook_type `{}`;", "y".repeat(64))), "{unknown}");
    }

    #[test]
    fn a_prompt_is_cut_between_two_characters() {
        let prompt = "é".repeat(MAX_PROMPT_BYTES);
        let call = read(&json!({"hook_type": "Stop", "params": {"session_id": "s", "prompt": prompt}}));
        assert_eq!(call.unwrap().params.prompt.unwrap().len(), MAX_PROMPT_BYTES);
    }

    #[test]
    fn commands_are_told_from_prompts() {
        let of = |prompt| {
            read(&json!({"hook_type": "PromptSubmit", "params": {"session_id": "s", "prompt": prompt}}))
        };
        assert!(of(" /clear ").unwrap().hands_off());
        assert!(of("/clear now").unwrap().hands_off());
        assert!(!of("/clearly not").unwrap().hands_off());
        assert!(!of("say /clear").unwrap().hands_off());
    }
}
