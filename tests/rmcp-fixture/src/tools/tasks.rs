//! Tools that become tasks for clients that declare the extension; for others they answer at once where they
//! can.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult, InputRequest};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde_json::{Value, json};

use super::{ToolCall, failure, text};
use crate::dialogue::required_form;
use crate::stop::Stop;

/// Answers after the number of seconds in its argument; one second by default.
pub(crate) async fn slow_compute(call: &ToolCall<'_>) -> Result<CallToolResponse, Stop> {
    let seconds = call.arguments.get("seconds").and_then(Value::as_f64).unwrap_or(1.0).clamp(0.0, 60.0);
    let pause = Duration::from_secs_f64(seconds);
    let done = move || text(&format!("computed for {seconds} s"));
    if !declared(call) {
        tokio::time::sleep(pause).await;
        return Ok(done().into());
    }
    Ok(spawn(call, async move |task| {
        tokio::select! {
            () = task.cancelled() => Err(TaskExit::Cancelled),
            () = tokio::time::sleep(pause) => Ok(done()),
        }
    }))
}

/// Fails as a tool after a second; refused to clients without tasks.
pub(crate) fn failing_job(call: &ToolCall<'_>) -> Result<CallToolResponse, Stop> {
    if !declared(call) {
        let required = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(required).into());
    }
    Ok(spawn(call, async |_| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(failure("the job failed, as it always does"))
    }))
}

/// Fails with an error of the protocol.
pub(crate) fn protocol_error_job(call: &ToolCall<'_>) -> Result<CallToolResponse, Stop> {
    let error = || ErrorData::internal_error("the job cannot be done at all", None);
    if !declared(call) {
        return Err(error().into());
    }
    Ok(spawn(call, async move |_| Err(TaskExit::Error(error()))))
}

/// Asks for confirmation.
pub(crate) async fn confirm_delete(call: &ToolCall<'_>) -> Result<CallToolResponse, Stop> {
    let file = call.text("filename").unwrap_or("nothing").to_owned();
    let form = required_form(&format!("Delete {file}?"), &json!({"confirm": {"type": "boolean"}}))?;
    let done =
        move |confirmed: bool| text(&format!("{file} {}", if confirmed { "is gone" } else { "stays" }));
    if declared(call) {
        return Ok(spawn(call, async move |task| {
            let answer = task.request_input("confirm", form).await?;
            Ok(done(answer.pointer("/content/confirm") == Some(&Value::Bool(true))))
        }));
    }
    if call.dialogue.capabilities().elicitation.is_none() {
        return Ok(failure("nobody can confirm").into());
    }
    let answers = call.dialogue.ask([("confirm".to_owned(), form)].into()).await?;
    Ok(done(answers.content("confirm").get("confirm") == Some(&Value::Bool(true))).into())
}

/// Asks two questions at once.
pub(crate) async fn multi_input(call: &ToolCall<'_>) -> Result<CallToolResponse, Stop> {
    let question =
        |letter: &str| required_form(&format!("Value {letter}?"), &json!({"value": {"type": "string"}}));
    let (a, b) = (question("A")?, question("B")?);
    if declared(call) {
        return Ok(spawn(call, async move |task| {
            let (a, b) = tokio::try_join!(task.request_input("a", a), task.request_input("b", b))?;
            let value = |answer: Value| answer.pointer("/content/value").cloned().unwrap_or_default();
            Ok(text(&format!("a = {}, b = {}", value(a), value(b))))
        }));
    }
    let answers = call.dialogue.ask([("a".to_owned(), a), ("b".to_owned(), b)].into()).await?;
    Ok(text(&format!("a = {}, b = {}", answers.text("a", "value"), answers.text("b", "value"))).into())
}

/// Asks first, and becomes a task once the question is answered.
pub(crate) async fn after_question(call: &ToolCall<'_>) -> Result<CallToolResponse, Stop> {
    let form: InputRequest = required_form("What is your name?", &json!({"name": {"type": "string"}}))?;
    let answers = call.dialogue.ask([("user_name".to_owned(), form)].into()).await?;
    let done = text(&format!("Hello, {}!", answers.text("user_name", "name")));
    if !declared(call) {
        return Ok(done.into());
    }
    Ok(spawn(call, async move |_| {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(done)
    }))
}

fn declared(call: &ToolCall<'_>) -> bool {
    call.dialogue.capabilities().supports_tasks()
}

fn spawn<W, F>(call: &ToolCall<'_>, work: W) -> CallToolResponse
where
    W: FnOnce(TaskContext) -> F,
    F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
{
    let task = call.server.shared.tasks.spawn(TaskOptions::default(), |context| Box::pin(work(context)));
    CreateTaskResult::new(task).into()
}
