//! Values that a server of a registry needs: secrets are left to the user, all others are asked for.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use vmcp_backend::RpcOutcome;
use vmcp_config::sanitize;
use vmcp_registry::plan::Question;
use vmcp_wire::methods;

use super::answer::refused;
use crate::call::ask_client;
use crate::caller::CallContext;
use crate::own_tools::own_answer::Refusal;

/// Most values that are asked for; a server with more is installed on the command line.
const MAX_QUESTIONS: usize = 20;
/// Longest description in the form, in characters.
const MAX_DESCRIPTION_CHARS: usize = 500;
/// Longest value, in characters.
const MAX_VALUE_CHARS: usize = 8192;

/// Asks the user for values in a form. The protocol forbids to ask for secrets in one, so none is among
/// `questions`.
pub(super) async fn ask(
    context: CallContext<'_>,
    server: &str,
    questions: &[&Question],
) -> Result<BTreeMap<String, String>, Refusal> {
    let names = questions.iter().map(|question| question.label.as_str()).collect::<Vec<_>>().join(", ");
    let missing = |why: &str| {
        refused(format!(
            "the server needs values for: {names}; {why}: give them in 'values', or use `vmcp registry add {server} --set NAME=VALUE`"
        ))
    };
    if questions.len() > MAX_QUESTIONS {
        return Err(missing(&format!("more than {MAX_QUESTIONS} are not asked for")));
    }
    let (caller, within) = (context.caller, context.snapshot.config.proxy.max_tool_timeout);
    let asked = ask_client::ask(caller, methods::ELICIT, form(server, questions)).await;
    let asked = asked.map_err(|why| missing(&format!("the client {why}")))?;
    let answer = tokio::select! {
        answer = timeout(within, asked) => answer,
        () = caller.cancel.cancelled() => return Err(refused("the call was cancelled")),
    };
    match answer {
        Ok(Ok(RpcOutcome::Result(result))) => values(&result, questions).map_err(refused),
        Ok(_) => Err(missing("the client could not ask its user")),
        Err(_) => Err(missing(&format!("no answer came within {} seconds", within.as_secs()))),
    }
}

/// Makes the parameters of `elicitation/create`: a field for each value.
fn form(server: &str, questions: &[&Question]) -> Option<Box<RawValue>> {
    let fields: Map<String, Value> = questions.iter().map(|question| field(question)).collect();
    let names: Vec<_> = questions.iter().map(|question| question.label.as_str()).collect();
    let message = format!("Values that the server {server} needs. Enter no passwords or keys here.");
    let schema = json!({ "type": "object", "properties": fields, "required": names });
    to_raw_value(&json!({ "message": message, "requestedSchema": schema })).ok()
}

fn field(question: &Question) -> (String, Value) {
    let Question { label, input, .. } = question;
    let description = sanitize::text(input.description.as_deref().unwrap_or_default());
    let description: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let mut field = json!({ "type": "string", "title": label, "description": description });
    if !input.choices.is_empty()
        && let Some(field) = field.as_object_mut()
    {
        field.insert("enum".to_owned(), json!(input.choices));
    }
    (label.clone(), field)
}

/// Reads the values from the user's answer.
fn values(answer: &RawValue, questions: &[&Question]) -> Result<BTreeMap<String, String>, String> {
    let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
    if answer.get("action").and_then(Value::as_str) != Some("accept") {
        return Err("the user declined".to_owned());
    }
    let mut values = BTreeMap::new();
    for Question { label, .. } in questions {
        let value = match answer.get("content").and_then(|content| content.get(label)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(flag)) => flag.to_string(),
            _ => return Err(format!("the user gave no value for {label}")),
        };
        if value.chars().count() > MAX_VALUE_CHARS || value.chars().any(char::is_control) {
            return Err(format!(
                "the value of {label} has control characters or more than {MAX_VALUE_CHARS} characters"
            ));
        }
        if value.contains("${") {
            return Err(format!("the value of {label} must not refer to variables or files (`${{`)"));
        }
        values.insert(label.clone(), value);
    }
    Ok(values)
}
