//! `tools/call`, of an own tool or a backend's; and [`Tools`], the same for code of vmcp's own.

mod in_process;

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use vmcp_backend::CallError;
use vmcp_engine::schema::CheckedArguments;
use vmcp_model::catalog::CatalogTool;
use vmcp_model::names::COMPOSITE;
use vmcp_wire::owned::OwnedParams;

use super::answer::Answer;
use super::answer::tool_result;
use super::argument_check::{check_arguments, misfit};
use super::call::{self, hidden};
use super::caller::CallContext;
use super::own_tools::large_results::references;
use super::own_tools::{self, arguments::framework_keys};
use super::router::{self, Target};
use super::subject::{self, shown};
use vmcp_engine::telemetry::calls::{Origin, Outcome};

pub use in_process::{ToolResult, Tools};

/// Handles `tools/call`. `params` as the client sent them.
pub async fn call_tool(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let subject = match subject::subject(params, "name") {
        Ok(subject) => subject,
        Err(error) => return Answer::error(&error),
    };
    let unknown = || Answer::invalid(format!("Unknown tool: {}", shown(&subject)));
    let target = match router::tool(context, &subject) {
        Some(Target::Optim(tool)) => {
            if call::authorize_own(context, tool, params.get("arguments")).is_ok() {
                return own_tools::run(context, tool, params).await;
            }
            hidden::hold(context, begun).await;
            return unknown();
        }
        Some(Target::Backend(target)) => target,
        None => {
            hidden::record_tool(context, &subject);
            hidden::hold(context, begun).await;
            return unknown();
        }
    };
    let (backend, tool) = (target.backend, target.item.tool());
    let plain = tool.and_then(|tool| without_framework_keys(params, tool));
    let params = plain.as_ref().unwrap_or(params);
    let composite = tool.filter(|tool| &*tool.backend == COMPOSITE);
    let goes_on = composite.is_some() && call::continues_run(context.caller, params);
    // Replaced before anything is judged: policies and schemas see the values that the backend will get.
    let has_references = tool.is_some() && !goes_on && references::may_have_some(context, params);
    let (with_values, unresolved) = if has_references {
        match Box::pin(references::replaced_in_params(context, params)).await {
            Ok(with_values) => (with_values, None),
            Err(error) => (None, Some(error)),
        }
    } else {
        (None, None)
    };
    let params = with_values.as_ref().unwrap_or(params);
    let (mended, refused) = match composite.filter(|_| !goes_on) {
        Some(tool) => match Box::pin(with_checked_arguments(context, tool, params)).await {
            Ok(mended) => (mended, unresolved),
            Err(violations) => (None, unresolved.or(Some(violations))),
        },
        None => (None, unresolved),
    };
    let params = mended.as_ref().unwrap_or(params);
    let record = context.start_record(Origin::Client);
    let Ok(call) = call::authorize(context, record, target, params.get("arguments")) else {
        hidden::hold(context, begun).await;
        return unknown();
    };
    if let Some(error) = refused {
        call.settle(Outcome::ToolError);
        return Answer::own(tool_result::error(&error));
    }
    if let Some(tool) = tool.filter(|_| call.judges_arguments())
        && let Err(violations) = check_written(context, tool, params.get("arguments")).await
    {
        call.settle(Outcome::ToolError);
        return Answer::invalid(violations);
    }
    match call.answer(params).await {
        Ok(answer) => answer,
        Err(error @ CallError::InsufficientScope { .. }) => Answer::unanswered(backend, &error),
        Err(error) => match tool {
            Some(tool) => Answer::own(own_tools::failed_call(context, tool, &error)),
            None => Answer::unanswered(backend, &error),
        },
    }
}

/// Returns the parameters of a call without keys that an agent framework added to its arguments; `None` if
/// there are none.
fn without_framework_keys(params: &OwnedParams, tool: &CatalogTool) -> Option<OwnedParams> {
    let schema = tool.definition.input_schema.as_deref();
    let rest = framework_keys::without_framework_keys(params.get("arguments")?, schema)?;
    params.with(&[("arguments", Some(rest.get()))]).ok()
}

/// Mends and checks the arguments of a composite tool: no server checks them, and its first step may change
/// something. Returns the parameters with mended arguments, or the violations.
async fn with_checked_arguments(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    params: &OwnedParams,
) -> Result<Option<OwnedParams>, String> {
    let written = params.get("arguments").filter(|arguments| *arguments != "null").unwrap_or("{}");
    let written: &RawValue = serde_json::from_str(written).map_err(|error| error.to_string())?;
    match context.snapshot.check(tool).mend(tool, written).await {
        CheckedArguments::AsWritten => check_arguments(context, tool, written).await.map(|()| None),
        CheckedArguments::Mended(mended) => {
            check_arguments(context, tool, &mended).await?;
            let params = params.with(&[("arguments", Some(mended.get()))]);
            params.map(Some).map_err(|error| error.to_string())
        }
        CheckedArguments::Refused(violations) => Err(misfit(context, tool, &violations)),
    }
}

/// Checks the arguments of a client's own call, which may be absent.
async fn check_written(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    arguments: Option<&str>,
) -> Result<(), String> {
    let written = arguments.map(str::trim).filter(|arguments| *arguments != "null").unwrap_or("{}");
    match serde_json::from_str::<&RawValue>(written) {
        Ok(arguments) => check_arguments(context, tool, arguments).await,
        Err(error) => Err(misfit(context, tool, &error.to_string())),
    }
}
