//! [`AskingCall`]: a script's call of a tool that asks the user, as a waiting script keeps it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use vmcp_json::text;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::keys::{INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::meta::META;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;

/// A call of a tool, which may have asked the user. Its answers come from outside; all else is sealed while
/// the script waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AskingCall {
    /// Listed name of the tool.
    pub(super) tool: String,
    /// Hash of the tool's definition: the questions belong to this one.
    pub(super) definition: String,
    /// Arguments, as the script wrote them.
    pub(super) arguments: Map<String, Value>,
    /// Open questions by the tool's own keys.
    #[serde(default)]
    pub(super) questions: Map<String, Value>,
    /// State of the tool, which came with its questions.
    #[serde(default)]
    pub(super) state: Option<String>,
    /// True if the user has confirmed the call (`aggregation.confirm`).
    #[serde(default)]
    pub(super) is_confirmed: bool,
    /// Answers to the questions.
    #[serde(skip)]
    pub(super) answers: Map<String, Value>,
}

impl AskingCall {
    /// Makes a call that has asked nothing yet.
    pub(super) fn new(tool: &CatalogTool, arguments: Map<String, Value>) -> AskingCall {
        AskingCall {
            tool: tool.name.clone(),
            definition: tool.hash.to_string(),
            arguments,
            questions: Map::new(),
            state: None,
            is_confirmed: false,
            answers: Map::new(),
        }
    }

    /// True if the call was made for this tool.
    pub(super) fn is_of(&self, tool: &Arc<CatalogTool>) -> bool {
        self.definition == tool.hash.to_string()
    }

    /// True if the call goes on with a state or answers.
    pub(super) fn goes_on(&self) -> bool {
        self.state.is_some() || !self.answers.is_empty()
    }

    /// Writes the parameters of `tools/call`; `arguments` are the repaired ones, `meta` is the client's.
    pub(super) fn params(&self, arguments: &RawValue, meta: Option<&str>) -> Result<OwnedParams, String> {
        let params = format!(r#"{{"name":{},"arguments":{}}}"#, text::quoted(&self.tool), arguments.get());
        let params = OwnedParams::from_text(params).map_err(|error| error.to_string())?;
        if !self.goes_on() && meta.is_none() {
            return Ok(params);
        }
        let answers = (!self.answers.is_empty()).then(|| Value::Object(self.answers.clone()).to_string());
        let state = self.state.as_deref().map(text::quoted);
        let with = [(META, meta), (INPUT_RESPONSES, answers.as_deref()), (REQUEST_STATE, state.as_deref())];
        params.with(&with).map_err(|error| error.to_string())
    }

    /// Returns the call with the questions of an `input_required` result.
    pub(super) fn asking(&self, result: &Payload, is_confirmed: bool) -> AskingCall {
        let mut result: Value = serde_json::from_str(result.get()).unwrap_or_default();
        let questions = match result.get_mut(INPUT_REQUESTS).map(Value::take) {
            Some(Value::Object(questions)) => questions,
            _ => Map::new(),
        };
        let state = result.get(REQUEST_STATE).and_then(Value::as_str).map(str::to_owned);
        AskingCall { questions, state, is_confirmed, answers: Map::new(), ..self.clone() }
    }

    /// Returns the methods of the questions, with their parameters.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.questions.values().map(move |question| {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            (method, question.get("params"))
        })
    }
}
