//! Questions of a run, and their answers. The key of a question is its step, or `STEP/KEY` for a question of
//! the tool that the step calls.

use serde_json::{Map, Value, json};

use super::state::{ItemState, Loop, State, Status, StepEnd, StepState, Waiting};
use crate::definition::{CompositeTool, Question};
use crate::raw::RefusalAction;
use crate::template::Data;

/// Key of the question of an elicitation step, beside those of tools.
const OWN: &str = "";

/// Makes the question of an elicitation step.
pub(super) fn ask(question: &Question, data: &Data) -> Result<Waiting, String> {
    let message = question.message.text(data).map_err(|error| format!("message: {error}"))?;
    let mut schema = question.schema.clone();
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    let form = json!({ "method": "elicitation/create", "params": params });
    let questions = Map::from_iter([(OWN.to_owned(), form)]);
    Ok(Waiting { questions, state: None, arguments: Map::new(), until: None })
}

/// Returns the open questions of all steps.
pub(super) fn open(state: &State) -> Map<String, Value> {
    let mut questions = Map::new();
    let mut add = |place: &str, waiting: &Waiting| {
        for (key, question) in &waiting.questions {
            questions.insert(key_of(place, key), question.clone());
        }
    };
    for (id, step) in &state.steps {
        match step {
            StepState::Waiting(waiting) => add(id, waiting),
            StepState::Looping(each) => {
                for (index, item) in &each.begun {
                    if let ItemState::Waiting(waiting) = item {
                        add(&place_of_item(id, *index), waiting);
                    }
                }
            }
            StepState::Ended(_) | StepState::Calling => {}
        }
    }
    questions
}

fn key_of(place: &str, key: &str) -> String {
    if key == OWN { place.to_owned() } else { format!("{place}/{key}") }
}

/// Names an item of a `forEach`.
pub(super) fn place_of_item(step: &str, index: usize) -> String {
    format!("{step}[{index}]")
}

/// Returns the answers to the questions at a place; `None` while one is missing.
pub(super) fn answers_at(
    place: &str,
    waiting: &Waiting,
    answers: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let answer = |key: &String| Some((key.clone(), answers.get(&key_of(place, key))?.clone()));
    waiting.questions.keys().map(answer).collect()
}

/// Consequence of the answer to an elicitation step.
pub(super) enum Answered {
    /// The step has ended.
    Ended(StepEnd),
    /// The step has ended, and no further one begins.
    SkipRest(StepEnd),
    /// The step has failed.
    Failed(String),
}

/// Reads the answer to an elicitation step.
pub(super) fn answered(question: &Question, answers: &Map<String, Value>) -> Answered {
    let answer = answers.get(OWN).unwrap_or(&Value::Null);
    let action = answer.get("action").and_then(Value::as_str).unwrap_or_default();
    let refusal = match action {
        "accept" => {
            let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
            if let Some(mistake) = mistake(question, &content) {
                return Answered::Failed(format!("the user's answer {mistake}"));
            }
            let output = json!({ "action": "accept", "content": content });
            return Answered::Ended(StepEnd::completed(output, content));
        }
        "decline" => question.on_decline,
        "cancel" => question.on_cancel,
        _ => return Answered::Failed("the client's answer has no action that MCP knows".to_owned()),
    };
    match refusal {
        RefusalAction::Abort if action == "decline" => Answered::Failed("the user declined".to_owned()),
        RefusalAction::Abort => Answered::Failed("the user dismissed the question".to_owned()),
        RefusalAction::Continue => {
            Answered::Ended(StepEnd::completed(json!({ "action": action }), Value::Null))
        }
        RefusalAction::SkipRemaining => {
            let output = json!({ "action": action, "skipped": true });
            Answered::SkipRest(StepEnd::completed(output, Value::Null))
        }
    }
}

/// Returns why an answer does not fit the form: it lacks a required property, or has one of another type or
/// of a value that the form does not offer.
fn mistake(question: &Question, content: &Value) -> Option<String> {
    let Some(entries) = content.as_object() else { return Some("is no object".to_owned()) };
    if let Some(missing) = missing(question, content) {
        return Some(format!("lacks `{missing}`"));
    }
    let properties = question.schema.get("properties").and_then(Value::as_object)?;
    // An optional field that was left empty may come as null.
    let given = entries.iter().filter(|(_, value)| !value.is_null());
    let mut given = given.filter_map(|(name, value)| Some((name, value, properties.get(name)?)));
    given.find_map(|(name, value, schema)| {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        if !is_of_kind(value, kind) {
            return Some(format!("has a `{name}` of another type than {kind}"));
        }
        let chosen = schema.get("items").zip(value.as_array());
        let are_items_offered =
            chosen.is_none_or(|(items, chosen)| chosen.iter().all(|item| is_offered(item, items)));
        (!is_offered(value, schema) || !are_items_offered)
            .then(|| format!("has a `{name}` that the form does not offer"))
    })
}

/// True if a schema offers a value, or has no list of values: neither `enum` nor alternatives of a `const`.
fn is_offered(value: &Value, schema: &Value) -> bool {
    let options = |key: &str| schema.get(key).and_then(Value::as_array);
    let has_value = |offered: &Vec<Value>| {
        offered.iter().any(|one| one.get("const").is_none_or(|offered| offered == value))
    };
    options("enum").is_none_or(|offered| offered.contains(value))
        && options("oneOf").is_none_or(has_value)
        && options("anyOf").is_none_or(has_value)
}

/// True if a value is of a type of JSON Schema; true for an unknown type.
fn is_of_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// Returns a required property that the answer lacks.
fn missing<'a>(question: &'a Question, content: &Value) -> Option<&'a str> {
    let required = question.schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    required.into_iter().find(|name| content.get(name).is_none_or(Value::is_null))
}

/// Returns the result of a `forEach` after all its items have ended.
pub(super) fn loop_output(each: &Loop) -> Value {
    let mut completed = 0;
    let iterations: Vec<Value> = each
        .items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let Some(ItemState::Ended(end)) = each.begun.get(&index) else { return None };
            completed += usize::from(end.status == Status::Completed);
            let mut iteration = json!({
                "index": index, "item": item, "status": end.status.word(), "output": end.output,
            });
            if let (Some(iteration), Some(error)) = (iteration.as_object_mut(), &end.error) {
                iteration.insert("error".to_owned(), json!(error));
            }
            Some(iteration)
        })
        .collect();
    let count = iterations.len();
    json!({ "iterations": iterations, "count": count, "completed": completed, "failed": count - completed })
}

/// Returns the output of the step that completed last.
pub(super) fn last_output(tool: &CompositeTool, state: &State) -> Value {
    let last = state.completed.last().and_then(|id| state.steps.get(id));
    match last {
        Some(StepState::Ended(end)) => end.output.clone(),
        // Every step was skipped: the last one's default, if it has any.
        _ => tool.steps.last().and_then(|step| step.default_results.clone()).unwrap_or_default(),
    }
}
