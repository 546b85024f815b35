//! Tools that ask their client one question.

use rmcp::model::{CallToolResult, InputRequest};
use serde_json::json;

use super::{ToolCall, text};
use crate::answers::ClientAnswers;
use crate::dialogue::{self, form, required_form};
use crate::stop::Stop;

const KEY: &str = "question";

/// Asks the client's model.
pub(crate) async fn sampling(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    let answers = ask(call, dialogue::sampling(call.text("prompt")?)).await?;
    Ok(text(&format!("LLM response: {}", answers.said(KEY))))
}

/// Asks the user for a name and an address.
pub(crate) async fn elicitation(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    let properties = json!({
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    });
    report(call, required_form(call.text("message")?, &properties)?).await
}

/// Asks for a form in which every field has a default.
pub(crate) async fn defaults(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }});
    report(call, form("Everything has a default.", schema)?).await
}

/// Asks for a form with every kind of choice.
pub(crate) async fn choices(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    let titled = json!([
        {"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}, {"const": "value3", "title": "Third"},
    ]);
    let schema = json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }});
    report(call, form("Choose.", schema)?).await
}

/// Asks for one value.
pub(crate) async fn value(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    report(call, required_form("Which value?", &json!({"value": {"type": "string"}}))?).await
}

async fn report(call: &ToolCall<'_>, form: InputRequest) -> Result<CallToolResult, Stop> {
    let answers = ask(call, form).await?;
    Ok(text(&format!("The user answered: action={}, content={}", answers.action(KEY), answers.content(KEY))))
}

async fn ask(call: &ToolCall<'_>, question: InputRequest) -> Result<ClientAnswers, Stop> {
    call.dialogue.ask([(KEY.to_owned(), question)].into()).await
}
