//! [`Tools`]: calls of tools by code of vmcp's own, without a JSON-RPC envelope.

use futures::future::BoxFuture;
use serde_json::value::RawValue;
use vmcp_backend::{CallError, Transmission};
use vmcp_json::text;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;

use crate::argument_check::check_arguments;
use crate::call::{self, Denied, hidden};
use crate::caller::{CallContext, Caller};
use crate::router::{self, Target};
use crate::{answer, own_tools};
use vmcp_engine::engine::Engine;
use vmcp_engine::telemetry::calls::{Origin, Outcome};

/// Calls tools for workflows, scripts and fallbacks. A call takes the way of a client's own: router, policy,
/// backend, record. Each call uses the newest snapshot.
///
/// ```
/// use serde_json::value::RawValue;
/// use vmcp_engine::engine::{Engine, Options, Storage};
/// use vmcp_route::{Caller, ToolResult, Tools};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let config = vmcp_config::load("backends: []", "vmcp.yaml", &|_| None).unwrap().config;
/// let options = Options { storage: Storage::Memory, ..Options::default() };
/// let engine = Engine::start(config, options).await.unwrap();
///
/// let arguments = RawValue::from_string(r#"{"city":"Basel"}"#.to_owned()).unwrap();
/// let result = Tools::new(engine).call(&Caller::default(), "weather", &arguments).await;
/// assert!(matches!(result, ToolResult::Unknown));
/// # }
/// ```
#[derive(Clone)]
pub struct Tools {
    engine: Engine,
}

/// The end of a call that [`Tools`] made.
#[derive(Debug)]
pub enum ToolResult {
    /// The tool's `CallToolResult`.
    Complete(Payload),
    /// A `CallToolResult` with `isError`: the tool itself failed.
    Failed(Payload),
    /// A question to the client (`input_required`) or a task, and no complete result.
    Pending(Payload),
    /// The backend's JSON-RPC error object.
    RpcError(Payload),
    /// No such tool, or none that the caller may call; the two cannot be told apart.
    Unknown,
    /// The arguments do not fit the tool's input schema; the text lists the violations.
    InvalidArguments(String),
    /// The backend gave no answer.
    Unanswered(CallError),
}

impl ToolResult {
    /// Part of its way that the call made. After [`Transmission::NotSent`] the tool has not run: the call may
    /// be made again, or another in its place.
    pub fn transmission(&self) -> Transmission {
        match self {
            ToolResult::Unknown | ToolResult::InvalidArguments(_) => Transmission::NotSent,
            ToolResult::Unanswered(error) => error.transmission(),
            _ => Transmission::Sent,
        }
    }
}

impl Tools {
    /// Makes a handle that calls the tools of `engine`.
    pub fn new(engine: Engine) -> Tools {
        Tools { engine }
    }

    /// Calls a tool, an own one or a backend's, by the name that a client would use. `arguments` are a JSON
    /// object; they are checked against the tool's input schema before the backend sees them.
    pub fn call<'a>(
        &'a self,
        caller: &'a Caller,
        tool: &'a str,
        arguments: &'a RawValue,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.run(caller, tool, arguments))
    }

    async fn run(&self, caller: &Caller, tool: &str, arguments: &RawValue) -> ToolResult {
        let snapshot = self.engine.snapshot();
        self.engine.prepare(&snapshot, &caller.principal).await;
        let view = snapshot.view(&caller.principal);
        let context = CallContext { engine: &self.engine, snapshot: &snapshot, view: &view, caller };
        let params = format!(r#"{{"name":{},"arguments":{}}}"#, text::quoted(tool), arguments.get());
        let params = match OwnedParams::from_text(params) {
            Ok(params) => params,
            Err(error) => return ToolResult::InvalidArguments(error.to_string()),
        };
        let target = match router::tool(context, tool) {
            Some(Target::Optim(own)) => {
                if let Err(Denied) = call::authorize_own(context, own, Some(arguments.get())) {
                    return ToolResult::Unknown;
                }
                return ToolResult::of_own(own_tools::run(context, own, &params).await);
            }
            Some(Target::Backend(target)) => target,
            None => {
                hidden::record_tool(context, tool);
                return ToolResult::Unknown;
            }
        };
        let tool = target.item.tool();
        let record = context.start_record(Origin::Internal);
        let call = match call::authorize(context, record, target, Some(arguments.get())) {
            Ok(call) => call,
            Err(Denied) => return ToolResult::Unknown,
        };
        if let Some(tool) = tool
            && let Err(violations) = check_arguments(context, tool, arguments).await
        {
            call.settle(Outcome::ToolError);
            return ToolResult::InvalidArguments(violations);
        }
        match call.call(&params).await {
            Ok(response) => {
                let pending = answer::is_pending(&response);
                match response.outcome.settled() {
                    Ok(result) if pending => ToolResult::Pending(result),
                    Ok(result) if result.is_tool_error() => ToolResult::Failed(result),
                    Ok(result) => ToolResult::Complete(result),
                    Err(error) => ToolResult::RpcError(error),
                }
            }
            Err(error) => ToolResult::Unanswered(error),
        }
    }
}

impl ToolResult {
    /// Reads the answer of an own tool.
    fn of_own(answer: answer::Answer) -> ToolResult {
        match answer.content.settled() {
            Ok(result) if answer.pending.is_some() => ToolResult::Pending(result),
            Ok(result) if result.is_tool_error() => ToolResult::Failed(result),
            Ok(result) => ToolResult::Complete(result),
            Err(error) => ToolResult::RpcError(error),
        }
    }
}
