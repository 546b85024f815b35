//! The handler of execute_code, and of execute_tool_script: runs a script in a worker process, or
//! execute_code in a Job of the cluster. Its calls of tools come back here, and each takes the way of a
//! client's own call, under the caller's identity.
//!
//! A script whose tool asks the user leaves its worker. A modern client gets the questions as the answer, and
//! carries the script sealed; a legacy client is asked while its call is held, and its script is kept in the
//! store of runs meanwhile. Any process goes on with either, behind the calls that the script has made.

mod asking_call;
mod call_arguments;
mod host;
mod inner_call;
mod kept;
mod report;
mod toolhive_value;
mod user_time;
mod waiting;

use std::time::{Duration, Instant};

use tokio::time::sleep;
use vmcp_backend::{Response, RpcOutcome};
use vmcp_config::{Code, CodeJob, Config};
use vmcp_script::jobs::JobSettings;
use vmcp_script::names::python_name;
use vmcp_script::pool::{PoolSettings, Ran, Script, ScriptEnd};
use vmcp_script::protocol::{Finished, StartScript, ToolScript};
use vmcp_script::{ResourceBounds, ScriptLimits};
use vmcp_wire::era::Era;
use vmcp_wire::keys::{INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::owned::OwnedParams;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tracing::{Instrument as _, Span, info_span};

use self::call_arguments::CodeArguments;
use self::host::Host;
use self::kept::KeptScript;
use self::waiting::Waiting;
use crate::answer::tool_result;
use crate::answer::{Answer, Content};
use crate::call::input_rounds::{InputRounds, Next};
use crate::caller::CallContext;
use crate::own_tools::arguments::dialect::Dialect;
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::telemetry::calls::{Origin, Outcome};

/// Name in place of a backend's for the state of a script; no backend can have it.
const STATE_OWNER: &str = "optim";
/// Time that a script with an answer waits for its place among running scripts; then it ends in `BusyError`.
const PLACE_TIME: Duration = Duration::from_secs(30);
/// Pause between two tries.
const PLACE_PAUSE: Duration = Duration::from_millis(50);
/// Most times that a legacy client is asked for one script; its calls have their own limit.
const MAX_QUESTION_ROUNDS: usize = 100;
/// The answer to a script that waited in a worker process, when scripts run as Jobs.
const OTHER_ENGINE: &str =
    "the script waits in the form of the engine `worker`, and scripts run as Jobs now; run it again";
/// The answer of a process that can make no Jobs.
const NO_JOBS: &str = "`code.engine: job` runs scripts as Kubernetes Jobs, and this server may make none; the administrator \
                       can set `scriptJobs.enabled` of the operator's chart, or `code.engine: worker`";
/// The answer to an answer that came twice.
const USED: &str =
    "this answer has been used: what follows it is not done twice; call the tool again without it";

/// Runs the script, or goes on with it, and answers with its result or its questions. `tool` runs scripts;
/// `params` are those of the call.
pub(in crate::own_tools) async fn run(
    context: CallContext<'_>,
    tool: OptimTool,
    params: &OwnedParams,
    arguments: &RawValue,
) -> Answer {
    let mut recorder = context.start_own_record(Origin::Own(tool), arguments);
    let span = info_span!(
        "optimizer.execute_code",
        calls = tracing::field::Empty,
        outcome = tracing::field::Empty,
        otel.status_code = tracing::field::Empty
    );
    recorder.record().span = span.clone();
    let (answer, outcome) = match execute(context, tool, params, arguments).instrument(span).await {
        Ok(End::Ended(result, outcome)) => (Answer::own(result), outcome),
        Ok(End::Asks(result)) => {
            recorder.record().pending = true;
            let questions = Content::Result(result.into());
            let pending = Some(STATE_OWNER.into());
            (Answer { content: questions, era: Era::Modern, pending }, Outcome::Ok)
        }
        Err(refused) => (Answer::own(tool_result::error(&refused)), Outcome::ToolError),
    };
    recorder.settle(outcome);
    answer
}

/// The end of a call.
enum End {
    Ended(Box<RawValue>, Outcome),
    /// An `input_required` result for a modern client.
    Asks(Box<RawValue>),
}

/// The next part of a script.
enum Part {
    New,
    /// A script that waited, with the answers to its questions.
    Waiting(String, Map<String, Value>),
}

async fn execute(
    context: CallContext<'_>,
    tool: OptimTool,
    params: &OwnedParams,
    arguments: &RawValue,
) -> Result<End, String> {
    let CallContext { snapshot, caller, .. } = context;
    let config = &snapshot.config;
    let parsed = match tool {
        OptimTool::ExecuteToolScript => CodeArguments::parse_toolhive(arguments, &config.code),
        _ => CodeArguments::parse(arguments, &config.code),
    };
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(refused) => return Ok(End::Ended(refused, Outcome::ToolError)),
    };
    if let Some(conflict) = toolhive_value::conflict(context.view, &arguments.data) {
        return Err(conflict);
    }
    let mut kept = KeptScript::new(context, tool, params);
    let end = drive(context, params, &arguments, &mut kept).await;
    if end.is_err() && !caller.cancel.is_cancelled() {
        // The client has this answer: an equal call begins again.
        kept.forget().await;
    }
    end
}

/// Runs the parts of a script, and asks a legacy client between them.
async fn drive(
    context: CallContext<'_>,
    params: &OwnedParams,
    arguments: &CodeArguments,
    kept: &mut KeptScript<'_>,
) -> Result<End, String> {
    let CallContext { snapshot, caller, .. } = context;
    let ended = |ran: Ran| {
        Span::current().record("calls", ran.calls);
        let outcome = if ran.finished.end.is_ok() { Outcome::Ok } else { Outcome::ToolError };
        End::Ended(report::result(ran, arguments), outcome)
    };
    let mut part = begin(context, params, kept).await?;
    for _ in 0..MAX_QUESTION_ROUNDS {
        let run = run_part(context, arguments, part);
        let part_end = tokio::select! {
            end = run => end?,
            () = caller.cancel.cancelled() => return Err("the call was cancelled".to_owned()),
        };
        let (questions, state) = match part_end {
            PartEnd::Ended(ran) => return Ok(ended(ran)),
            PartEnd::AsksAgain(waiting, state) => (waiting::questions(&waiting), state),
            PartEnd::Waits(waiting) => {
                let (questions, made, took) = (waiting::questions(&waiting), waiting.made, waiting.took);
                match waiting::write(*waiting) {
                    Ok(state) => (questions, state),
                    Err(failure) => {
                        let finished = Finished::failed(failure);
                        return Ok(ended(Ran { finished, calls: made, took }));
                    }
                }
            }
        };
        let asked =
            json!({ "resultType": "input_required", INPUT_REQUESTS: questions, REQUEST_STATE: state });
        let asked = to_raw_value(&asked).unwrap_or_default();
        if caller.era == Era::Modern {
            return Ok(End::Asks(asked));
        }
        kept.keep(&state).await?;
        let response = Response { outcome: RpcOutcome::result(&asked), era: Era::Modern };
        let mut rounds = InputRounds::new(caller, params, snapshot.config.proxy.max_tool_timeout);
        // Boxed: most scripts ask nothing.
        match Box::pin(rounds.next(&response)).await.map_err(|error| error.to_string())? {
            Next::Repeat(answered) => {
                // Fails if another process has taken the script over meanwhile.
                kept.keep(&state).await?;
                kept.forget().await;
                part = Part::Waiting(state, object(answered.get(INPUT_RESPONSES)));
            }
            Next::Error(error) => return Err(message(&error)),
            Next::Complete => return Err("the question of a tool cannot be read".to_owned()),
        }
    }
    Err(format!("the tools of the script asked {MAX_QUESTION_ROUNDS} times"))
}

/// Returns the part to begin with: the script from its begin, or a script that waited for its client.
async fn begin(
    context: CallContext<'_>,
    params: &OwnedParams,
    kept: &mut KeptScript<'_>,
) -> Result<Part, String> {
    let CallContext { engine, snapshot, caller, .. } = context;
    match caller.continues.as_deref() {
        Some(STATE_OWNER) => {
            let state: String = params
                .get(REQUEST_STATE)
                .and_then(|state| serde_json::from_str(state).ok())
                .unwrap_or_default();
            let answers = object(params.get(INPUT_RESPONSES));
            // A repeat without an answer begins nothing; it is asked again.
            if !answers.is_empty() {
                let is_new = engine.runs().use_answer(&snapshot.config, &state).await;
                if !is_new.map_err(|error| error.to_string())? {
                    return Err(USED.to_owned());
                }
            }
            Ok(Part::Waiting(state, answers))
        }
        Some(_) => Err("`requestState` belongs to another tool; repeat the request without it".to_owned()),
        None => {
            let claimed = kept.claim().await.map_err(|error| error.to_string())?;
            Ok(claimed.map_or(Part::New, |state| Part::Waiting(state, Map::new())))
        }
    }
}

/// The end of a part.
enum PartEnd {
    Ended(Ran),
    Waits(Box<Waiting>),
    /// The client sent no answer: its state stays the same, so that it counts once.
    AsksAgain(Box<Waiting>, String),
}

/// Runs a script to its end or its next question.
async fn run_part(
    context: CallContext<'_>,
    arguments: &CodeArguments,
    part: Part,
) -> Result<PartEnd, String> {
    let config = &context.snapshot.config;
    let Some(workers) = context.engine.script_workers() else {
        return Err("this process cannot start workers for scripts".to_owned());
    };
    let limits = limits(config, arguments);
    let principal = context.caller.principal.key();
    let host = Host::new(context, arguments.dialect);
    let begun = Instant::now();
    loop {
        let script = match &part {
            Part::New => Script::New(StartScript {
                code: arguments.code.clone(),
                tool_script: tool_script(context, arguments),
                context: arguments.context.clone(),
                namespaces: namespaces(context, arguments.dialect),
                limits: limits.clone(),
            }),
            Part::Waiting(state, answers) => {
                let mut waiting = waiting::read(state)?;
                if !waiting::answer(&mut waiting, answers) {
                    let waiting = Box::new(waiting);
                    return Ok(if answers.is_empty() {
                        PartEnd::AsksAgain(waiting, state.clone())
                    } else {
                        PartEnd::Waits(waiting)
                    });
                }
                Script::Waiting(waiting, limits.clone())
            }
        };
        let end = match (job_of(config, arguments.dialect), context.engine.script_jobs()) {
            (None, _) => workers.run(&principal, settings(config), script, &host).await,
            (Some(_), _) if matches!(part, Part::Waiting(..)) => return Err(OTHER_ENGINE.to_owned()),
            (Some(job), Some(jobs)) => {
                let job = job_settings(&config.code, job);
                let launch = jobs.launch(&job, &limits);
                workers.run_in(&principal, settings(config), launch, script, &host).await
            }
            (Some(_), None) => {
                return Err(NO_JOBS.to_owned());
            }
        };
        match end {
            // An answer counts once, so a script that goes on waits for its place.
            ScriptEnd::Ended(ran) if is_busy(&ran) && is_patient(&part, begun) => sleep(PLACE_PAUSE).await,
            ScriptEnd::Ended(ran) => return Ok(PartEnd::Ended(ran)),
            ScriptEnd::Waits(waiting) => return Ok(PartEnd::Waits(waiting)),
        }
    }
}

/// Returns the Job that runs a script; `None`: a worker runs it. Scripts of ToolHive are Python to workers
/// alone.
fn job_of(config: &Config, dialect: Dialect) -> Option<&CodeJob> {
    config.code.job.as_ref().filter(|_| dialect == Dialect::Python)
}

/// True if the script did not run, because others do.
fn is_busy(ran: &Ran) -> bool {
    ran.finished.end.as_ref().is_err_and(|failure| failure.error_type == "BusyError")
}

/// True if a part may wait longer for its place.
fn is_patient(part: &Part, begun: Instant) -> bool {
    matches!(part, Part::Waiting(..)) && begun.elapsed() < PLACE_TIME
}

/// Reads an object; nothing else counts.
fn object(json: Option<&str>) -> Map<String, Value> {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

/// Returns the message of a JSON-RPC error.
fn message(error: &RawValue) -> String {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str);
    message.unwrap_or("the client could not ask its user").to_owned()
}

/// Returns the functions and names of a script of ToolHive; `None` for others.
fn tool_script(context: CallContext<'_>, arguments: &CodeArguments) -> Option<ToolScript> {
    let CodeArguments { code, data, dialect, .. } = arguments;
    let functions = || toolhive_value::functions(context.view, code);
    (*dialect == Dialect::ToolHive).then(|| ToolScript { functions: functions(), data: data.clone() })
}

/// Python names of the servers whose tools the caller may call; none in scripts of ToolHive, where tools have
/// their listed names.
fn namespaces(context: CallContext<'_>, dialect: Dialect) -> Vec<String> {
    if dialect == Dialect::ToolHive {
        return Vec::new();
    }
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

/// Returns the settings of the Job of one script.
fn job_settings(code: &Code, job: &CodeJob) -> JobSettings {
    JobSettings {
        image: job.image.clone(),
        image_pull_secrets: job.image_pull_secrets.clone(),
        runtime_class_name: job.runtime_class_name.clone(),
        cpu_millicores: job.cpu_millicores,
        memory: u64::from(code.memory_mebibytes) << 20,
        ephemeral_storage: u64::from(job.ephemeral_storage_mebibytes) << 20,
        start_timeout: job.start_timeout,
        max_timeout: code.max_timeout,
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
