//! Calls of a run's steps: each goes through the call seam, with the newest snapshot.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tracing::{Instrument as _, Span, info_span};
use vmcp_backend::{CallError, Response};
use vmcp_engine::engine::Snapshot;
use vmcp_engine::schema::CheckedArguments;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_json::text;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::keys::{INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::meta::META;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;
use vmcp_wire::translate::{ResultType, payload_type};
use vmcp_workflow::run::{Answers, CallEnd, ToolCall, ToolCaller};

use super::OpenRun;
use crate::answer;
use crate::argument_check;
use crate::call::input_rounds::{MAX_ROUNDS, pause_before_repeat};
use crate::call::{self, Denied, ask_client, first_text};
use crate::caller::Consent;
use crate::caller::{CallContext, Caller};
use crate::router::{self, BackendTarget};

/// Calls tools for the steps of one run.
pub(super) struct Steps<'a> {
    context: CallContext<'a>,
    span: Span,
    /// The client's own `_meta` as JSON, which each step sends on.
    meta: Option<String>,
    run: &'a OpenRun,
}

impl<'a> Steps<'a> {
    /// `params` are those of the client's call.
    pub(super) fn new(
        context: CallContext<'a>,
        span: Span,
        params: &OwnedParams,
        run: &'a OpenRun,
    ) -> Steps<'a> {
        let meta = call::own_meta(params);
        Steps { context, span, meta, run }
    }
}

impl ToolCaller for Steps<'_> {
    async fn call(&self, call: ToolCall) -> CallEnd {
        let span = info_span!(parent: &self.span, "composite.step", step = %call.step, tool = %call.tool);
        // Boxed: a step may be a call of any depth, and most calls are no steps.
        let called: futures::future::BoxFuture<'_, CallEnd> = Box::pin(self.call_with_state(call));
        called.instrument(span).await
    }

    fn cannot_ask(&self) -> Option<String> {
        let caller = self.context.caller;
        let can_ask = match caller.era {
            // A modern client is asked by the result.
            vmcp_wire::era::Era::Modern => ask_client::has_declared(caller, methods::ELICIT),
            vmcp_wire::era::Era::Legacy => ask_client::can_ask(caller, methods::ELICIT),
        };
        (!can_ask).then(|| "the client cannot be asked: it did not declare elicitation".to_owned())
    }

    fn may_repeat(&self, tool: &str) -> bool {
        may_repeat(self.context.snapshot, tool)
    }
}

/// True if a step may call the tool again after an answer was lost.
pub(super) fn may_repeat(snapshot: &Snapshot, tool: &str) -> bool {
    snapshot.unfiltered().step_tool(tool).is_some_and(|tool| router::may_repeat(tool))
}

impl Steps<'_> {
    /// Calls a tool, again with its own state while the tool wants that back and asks nothing.
    async fn call_with_state(&self, mut call: ToolCall) -> CallEnd {
        for round in 0..MAX_ROUNDS {
            match self.call_tool(call.clone()).await {
                CallEnd::Asks { questions, state } if questions.is_empty() && state.is_some() => {
                    pause_before_repeat(round).await;
                    call.answers = Some(Answers { responses: questions, state });
                }
                end => return end,
            }
        }
        CallEnd::Failed(format!("the tool wanted its state back {MAX_ROUNDS} times and came to no end"))
    }

    async fn call_tool(&self, call: ToolCall) -> CallEnd {
        let engine = self.context.engine;
        let snapshot = engine.snapshot();
        let Some(tool) =
            snapshot.unfiltered().step_tool(&call.tool).filter(|tool| !snapshot.is_quarantined(tool))
        else {
            return CallEnd::Failed("no backend offers this tool now".to_owned());
        };
        let mut caller = Caller {
            continues: None,
            consent: Consent::default(),
            takes_arriving: false,
            ..self.context.caller.clone()
        };
        if call.answers.is_some() {
            caller.continues = Some(Arc::clone(&tool.backend));
        }
        engine.prepare(&snapshot, &caller.principal).await;
        let view = snapshot.view(&caller.principal);
        let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
        match call_through_seam(context, tool, &call, self).await {
            Ok(end) => end,
            // Final: a repeated call is denied again, or runs a tool again whose result is withheld again.
            Err(error @ (CallError::Denied { .. } | CallError::Withheld { .. })) => {
                CallEnd::Refused(error.to_string())
            }
            Err(error) => CallEnd::Failed(error.to_string()),
        }
    }
}

async fn call_through_seam(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    call: &ToolCall,
    steps: &Steps<'_>,
) -> Result<CallEnd, CallError> {
    let snapshot = context.snapshot;
    let written = raw(&Value::Object(call.arguments.clone()));
    // Mended before the policy is asked: it must judge the arguments that the backend will get.
    let checked = snapshot.check(tool).mend(tool, &written).await;
    let arguments = match &checked {
        CheckedArguments::Mended(mended) => mended,
        _ => &written,
    };
    let mut target = BackendTarget::tool(snapshot, tool);
    target.deadline = target.deadline.min(call.deadline);
    let mut record = context.start_record(Origin::Step);
    record.record().run = steps.run.id().map(Box::from);
    let authorized = match call::authorize(context, record, target, Some(arguments.get())) {
        Ok(authorized) => authorized,
        Err(Denied) => return Ok(CallEnd::Failed("no backend offers this tool now".to_owned())),
    };
    if let CheckedArguments::Refused(violations) = &checked {
        authorized.settle(Outcome::ToolError);
        // Final: a repeated call has the same arguments.
        return Ok(CallEnd::Refused(argument_check::misfit(context, tool, violations)));
    }
    let params = params(&tool.name, arguments, call, steps.meta.as_deref())
        .map_err(|reason| CallError::InvalidRequest { reason })?;
    Ok(end(authorized.call(&params).await?))
}

/// Writes the parameters of `tools/call`, with the answers to the tool's questions.
fn params(
    name: &str,
    arguments: &RawValue,
    call: &ToolCall,
    meta: Option<&str>,
) -> Result<OwnedParams, String> {
    let mut params = format!(r#"{{"name":{},"arguments":{}"#, text::quoted(name), arguments.get());
    if let Some(meta) = meta {
        // Writing to a string cannot fail.
        let _ = write!(params, ",{}:{meta}", text::quoted(META));
    }
    if let Some(answers) = &call.answers {
        if !answers.responses.is_empty() {
            let responses = Value::Object(answers.responses.clone());
            let _ = write!(params, ",{}:{responses}", text::quoted(INPUT_RESPONSES));
        }
        if let Some(state) = &answers.state {
            let _ = write!(params, ",{}:{}", text::quoted(REQUEST_STATE), text::quoted(state));
        }
    }
    OwnedParams::from_text(params + "}").map_err(|error| error.to_string())
}

/// Reads the answer of a tool.
fn end(response: Response) -> CallEnd {
    let pending = answer::is_pending(&response);
    match response.outcome.settled() {
        Ok(result) if pending => match payload_type(&result) {
            ResultType::InputRequired => asks(&result),
            _ => CallEnd::Failed("the tool became a task, for which a step cannot wait".to_owned()),
        },
        Ok(result) if result.is_tool_error() => CallEnd::Failed(
            first_text(&result).unwrap_or_else(|| "the tool failed without a message".to_owned()),
        ),
        Ok(result) => complete(&result),
        Err(error) => {
            let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
            let message =
                error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
            CallEnd::Failed(message.to_owned())
        }
    }
}

fn asks(result: &Payload) -> CallEnd {
    let question: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let questions = question.get(INPUT_REQUESTS).and_then(Value::as_object).cloned().unwrap_or_default();
    let state = question.get(REQUEST_STATE).and_then(Value::as_str).map(str::to_owned);
    if questions.is_empty() && state.is_none() {
        return CallEnd::Failed("the tool wants an answer and asks nothing".to_owned());
    }
    CallEnd::Asks { questions, state }
}

/// Returns the value of a result: its structured content, of any type, else its blocks by kind, as ToolHive
/// names them: `text`, `text_1`, `image_0`, `audio_0`, `resource_0`.
fn complete(result: &Payload) -> CallEnd {
    let mut result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let content = result.get_mut("content").map(Value::take).unwrap_or_default();
    if let Some(structured) = result.get_mut("structuredContent").map(Value::take)
        && !structured.is_null()
    {
        return CallEnd::Complete { output: structured, content };
    }
    let mut output = Map::new();
    let mut counts = [0usize; 4];
    for block in content.as_array().into_iter().flatten() {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        let (count, key, value) = match (kind, &mut counts) {
            ("text", [texts, ..]) => {
                let key = if *texts == 0 { "text".to_owned() } else { format!("text_{texts}") };
                (texts, key, block.get("text"))
            }
            ("image", [_, images, ..]) => {
                let key = format!("image_{images}");
                (images, key, block.get("data"))
            }
            ("audio", [_, _, audios, _]) => {
                let key = format!("audio_{audios}");
                (audios, key, block.get("data"))
            }
            (_, [_, _, _, others]) => {
                let key = format!("resource_{others}");
                (others, key, Some(block))
            }
        };
        *count += 1;
        output.insert(key, value.cloned().unwrap_or_else(|| json!("")));
    }
    CallEnd::Complete { output: Value::Object(output), content }
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn payload(value: &Value) -> Payload {
        Payload::from(raw(value))
    }

    #[test]
    fn structured_content_of_any_type_is_the_value_of_a_step() {
        for structured in [json!([1, 2]), json!({ "a": 1 }), json!("text"), json!(0), json!(false)] {
            let content = json!([{ "type": "text", "text": "x" }]);
            let result = json!({ "content": content, "structuredContent": structured });
            let end = complete(&payload(&result));
            assert_eq!(end, CallEnd::Complete { output: structured, content });
        }
        let result = json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": null });
        let CallEnd::Complete { output, .. } = complete(&payload(&result)) else { panic!("{result}") };
        assert_eq!(output, json!({ "text": "x" }));
    }

    #[test]
    fn a_tool_that_wants_its_state_back_gets_it_alone() {
        let result = json!({ "resultType": "input_required", "requestState": "its own" });
        let CallEnd::Asks { questions, state } = asks(&payload(&result)) else { panic!("{result}") };
        assert!(questions.is_empty());
        let call = ToolCall {
            step: "a".to_owned(),
            tool: "t".to_owned(),
            arguments: Map::new(),
            deadline: Duration::from_secs(1),
            answers: Some(Answers { responses: questions, state }),
        };
        let params = params("t", &raw(&json!({})), &call, None).unwrap();
        assert_eq!(params.get(REQUEST_STATE), Some("\"its own\""));
        assert_eq!(params.get(INPUT_RESPONSES), None);
        let nothing = asks(&payload(&json!({ "resultType": "input_required" })));
        assert!(matches!(nothing, CallEnd::Failed(_)), "{nothing:?}");
    }
}
