//! Composite tools as written: the keys of ToolHive's `VirtualMCPCompositeToolDefinition`, unchanged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A composite tool: steps that call tools of backends, under one name. Texts of its steps are templates of
/// Go's `text/template` with the functions `json`, `quote` and `fromJson`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeTool")]
pub struct RawCompositeTool {
    /// Name, listed as `composite.NAME`: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// Purpose of the tool, for models that choose it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of the arguments; their defaults are applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// Most time of a run, such as `10m`. Default: `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Steps, at most 100. Each begins as soon as the steps that it depends on have ended.
    pub steps: Vec<RawStep>,
    /// Result of the tool. Default: the result of the step that ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<RawOutput>,
    /// Hints for clients. A tool may not claim to be safer than its steps are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<RawHints>,
}

/// One step of a composite tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeStep")]
pub struct RawStep {
    /// Name of the step in templates: `{{.steps.ID.output}}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Kind of the step. Default: `tool`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<RawStepKind>,
    /// Tool to call: its listed name, or `backend.tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments of the tool; each text in them is a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Steps that must have ended before. A step whose template refers to another waits for it anyway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Template that yields `true` or `false`; the step is skipped unless it is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Action after a failure. Default: the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<RawOnError>,
    /// Output for templates of other steps when this one is skipped, or fails and the run goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_results: Option<Value>,
    /// Most time of a call with its retries, of a question until its answer, or of all items of a `forEach`;
    /// then the step fails. Default: `5m` for a call, else the time of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Question of an `elicitation` step, a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// JSON Schema of the form of an `elicitation` step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Map<String, Value>>,
    /// Action after the user declines. Default: the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_decline: Option<RawOnRefusal>,
    /// Action after the user dismisses the question. Default: the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_cancel: Option<RawOnRefusal>,
    /// List of a `forEach` step: a template that yields a list, or its JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Name of the current item in templates, `{{.forEach.NAME}}`: letters, digits and `_`, and not `index`.
    /// Default: `item`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_var: Option<String>,
    /// Most items of a `forEach` step, 1 to 1,000; a longer list fails the step. Default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// Most items in work at once, 1 to 50. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Call that a `forEach` step makes for each item: a step of type `tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Box<RawInnerStep>>,
}

/// The call that a `forEach` step makes for each item.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeInnerStep")]
pub struct RawInnerStep {
    /// Name, for readers only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Kind: `tool` only.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<RawStepKind>,
    /// Tool to call: its listed name, or `backend.tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments of the tool; each text in them is a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Action after a failure of one item: `continue` or `retry`. Default: as the step says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<RawOnError>,
    /// Most time for one item with its retries. Default: `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// Kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CompositeStepKind")]
pub enum RawStepKind {
    /// Calls a tool.
    Tool,
    /// Asks the user.
    Elicitation,
    /// Calls a tool for each item of a list.
    ForEach,
}

/// Action after a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeOnError")]
pub struct RawOnError {
    /// `abort` ends the run, `continue` goes on, `retry` calls again and then ends the run. Default: `abort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<RawErrorAction>,
    /// Most further calls of `retry`, 1 to 10. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    /// Pause before the first further call; it doubles each time, up to 60 times itself. Default: `1s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_delay: Option<String>,
}

/// Action after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CompositeErrorAction")]
pub enum RawErrorAction {
    /// Ends the run.
    Abort,
    /// Goes on without the step's result.
    Continue,
    /// Calls again.
    Retry,
}

/// Action after the user declines or dismisses a question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeOnRefusal")]
pub struct RawOnRefusal {
    /// `abort` ends the run with an error, `continue` goes on, `skip_remaining` ends it with its results so
    /// far.
    pub action: Option<RefusalAction>,
}

/// Action after a question that the user declined or dismissed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CompositeRefusalAction")]
pub enum RefusalAction {
    /// Ends the run with an error.
    #[default]
    Abort,
    /// Goes on.
    Continue,
    /// Begins no further step; the run ends with its results so far.
    SkipRemaining,
}

/// Result of a composite tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeOutput")]
pub struct RawOutput {
    /// Properties of the result, by name.
    pub properties: BTreeMap<String, RawOutputProperty>,
    /// Properties that must be there; without one of them the run fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
}

/// One property of a result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeOutputProperty")]
pub struct RawOutputProperty {
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: Option<RawOutputType>,
    /// Meaning of the value, for clients and models.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Template of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Value if the template fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Properties of an object, in place of `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<Map<String, Value>>,
}

/// Type of a property, as JSON Schema names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CompositeOutputType")]
pub enum RawOutputType {
    /// Text.
    String,
    /// Whole number.
    Integer,
    /// Number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Object.
    Object,
    /// List.
    Array,
}

/// Hints for clients, as in MCP's `annotations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CompositeHints")]
pub struct RawHints {
    /// Title for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// True if the tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// True if its changes may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// True if a repeated call changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// True if it reaches beyond a closed set of things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}
