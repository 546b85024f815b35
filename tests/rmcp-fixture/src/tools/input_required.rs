//! Tools `test_input_required_result_*`, which ask their client in one or more rounds.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, InputRequests};
use serde_json::json;

use super::{ToolCall, text};
use crate::dialogue::{required_form, roots, sampling};
use crate::stop::Stop;

/// Calls the tool whose name ends in `question`.
pub(crate) async fn call(question: &str, mut call: ToolCall<'_>) -> Result<CallToolResult, Stop> {
    let dialogue = &mut call.dialogue;
    Ok(match question {
        "elicitation" => {
            let answers = dialogue.ask([name()?].into()).await?;
            text(&format!("Hello, {}!", answers.text("user_name", "name")))
        }
        "sampling" => {
            let question = ("capital_question".to_owned(), sampling("What is the capital of France?"));
            let answers = dialogue.ask([question].into()).await?;
            text(&format!("The model said: {}", answers.said("capital_question")))
        }
        "list_roots" => {
            let answers = dialogue.ask([client_roots()].into()).await?;
            text(&format!("The roots are: {}", answers.roots("client_roots").join(", ")))
        }
        "request_state" | "tampered_state" => {
            let form = required_form("Please confirm.", &json!({"ok": {"type": "boolean"}}))?;
            let answers = dialogue.round([("confirm".to_owned(), form)].into()).await?;
            text(&format!("state-ok: {}", answers.action("confirm")))
        }
        "multiple_inputs" => {
            let answers = dialogue.round([name()?, greeting(), client_roots()].into()).await?;
            let (name, greeting) = (answers.text("user_name", "name"), answers.said("greeting"));
            text(&format!("{greeting} {name} of {}", answers.roots("client_roots").join(", ")))
        }
        "multi_round" => {
            let form = required_form("Step 1: what is your name?", &json!({"name": {"type": "string"}}))?;
            let first = dialogue.round([("step1".to_owned(), form)].into()).await?;
            let form = required_form(
                "Step 2: what is your favourite colour?",
                &json!({"color": {"type": "string"}}),
            )?;
            let second = dialogue.round([("step2".to_owned(), form)].into()).await?;
            text(&format!("{} likes {}", first.text("step1", "name"), second.text("step2", "color")))
        }
        "capabilities" => {
            let can = dialogue.capabilities();
            let mut questions = InputRequests::new();
            questions.extend(can.elicitation.is_some().then(name).transpose()?);
            questions.extend(can.sampling.is_some().then(greeting));
            questions.extend(can.roots.is_some().then(client_roots));
            if !questions.is_empty() {
                dialogue.ask(questions).await?;
            }
            text("The client answered all that it can.")
        }
        _ => return Err(ErrorData::invalid_params(format!("unknown tool: …{question}"), None).into()),
    })
}

type Question = (String, rmcp::model::InputRequest);

fn name() -> Result<Question, Stop> {
    Ok(("user_name".to_owned(), required_form("What is your name?", &json!({"name": {"type": "string"}}))?))
}

fn greeting() -> Question {
    ("greeting".to_owned(), sampling("Write a greeting."))
}

fn client_roots() -> Question {
    ("client_roots".to_owned(), roots())
}
