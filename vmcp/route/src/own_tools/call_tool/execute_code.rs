//! The handler of execute_code: runs a script in a worker process. Its calls of tools come back here, and
//! each takes the way of a client's own call, under the caller's identity.

mod call_arguments;
mod host;
mod inner_call;
mod report;

use vmcp_config::Config;
use vmcp_script::names::python_name;
use vmcp_script::pool::{PoolSettings, Ran};
use vmcp_script::protocol::StartScript;
use vmcp_script::{ResourceBounds, ScriptLimits};

use serde_json::value::RawValue;
use tracing::{Instrument as _, info_span};

use self::call_arguments::CodeArguments;
use self::host::Host;
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::tool_result;
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::telemetry::calls::{Origin, Outcome};

/// Runs the script, and answers with its result.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let mut recorder = context.start_own_record(Origin::Own(OptimTool::ExecuteCode), arguments);
    let span = info_span!(
        "optimizer.execute_code",
        calls = tracing::field::Empty,
        outcome = tracing::field::Empty,
        otel.status_code = tracing::field::Empty
    );
    recorder.record().span = span.clone();
    let (result, outcome) = match execute(context, arguments).instrument(span.clone()).await {
        Ok((arguments, ran)) => {
            span.record("calls", ran.calls);
            let outcome = if ran.finished.end.is_ok() { Outcome::Ok } else { Outcome::ToolError };
            (report::result(ran, &arguments), outcome)
        }
        Err(refused) => (refused, Outcome::ToolError),
    };
    recorder.settle(outcome);
    Answer::own(result)
}

async fn execute(
    context: CallContext<'_>,
    arguments: &RawValue,
) -> Result<(CodeArguments, Ran), Box<RawValue>> {
    let config = &context.snapshot.config;
    let arguments = CodeArguments::parse(arguments, &config.code)?;
    let Some(workers) = context.engine.script_workers() else {
        return Err(tool_result::error("this process cannot start workers for scripts"));
    };
    let script = StartScript {
        code: arguments.code.clone(),
        context: arguments.context.clone(),
        namespaces: namespaces(context),
        limits: limits(config, &arguments),
    };
    let principal = context.caller.principal.key();
    let host = Host::new(context);
    let ran = workers.run(&principal, settings(config), script, &host);
    let ran = tokio::select! {
        ran = ran => ran,
        () = context.caller.cancel.cancelled() => return Err(tool_result::error("the call was cancelled")),
    };
    Ok((arguments, ran))
}

/// Python names of the servers whose tools the caller may call.
fn namespaces(context: CallContext<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut last = "";
    for tool in context.view.tools() {
        if &*tool.backend != last {
            last = &tool.backend;
            names.push(python_name(last));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn limits(config: &Config, arguments: &CodeArguments) -> ScriptLimits {
    let code = &config.code;
    ScriptLimits {
        timeout: arguments.timeout,
        calls: code.max_calls,
        parallel: code.max_parallel,
        output_bytes: code.max_output_bytes,
        result_bytes: code.max_result_bytes,
        ..ScriptLimits::default()
    }
}

fn settings(config: &Config) -> PoolSettings {
    let code = &config.code;
    let bounds = ResourceBounds {
        memory: u64::from(code.memory_mebibytes) << 20,
        // A script that computes all the time reaches its deadline first.
        cpu_seconds: code.max_timeout.as_secs() + 1,
    };
    PoolSettings {
        warm: code.warm_workers,
        running: code.max_running,
        running_per_principal: code.max_running_per_client,
        bounds,
    }
}

#[cfg(test)]
mod tests;
