//! The handler of execute_code, and of execute_tool_script: runs a script in a worker process, or
//! execute_code in a Job of the cluster. Its calls of tools come back here, and each takes the way of a
//! client's own call, under the caller's identity.
//!
//! A script whose tool asks the user leaves its worker. A modern client gets the questions as the answer, and
//! carries the script sealed; a legacy client is asked while its call is held, and its script is kept in the
//! store of runs meanwhile. Any process goes on with either, behind the calls that the script has made.

mod asking_call;
mod author;
mod call_arguments;
mod host;
mod inner_call;
mod kept;
pub(in crate::own_tools) mod over_rows;
mod report;
mod settings;
mod toolhive_value;
mod user_time;
mod waiting;

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use vmcp_backend::{Response, RpcOutcome};
use vmcp_script::names::python_name;
use vmcp_script::pool::{Ran, Script, ScriptEnd};
use vmcp_script::protocol::{Finished, StartScript, ToolScript};
use vmcp_wire::era::Era;
use vmcp_wire::keys::{INPUT_REQUESTS, INPUT_RESPONSES, REQUEST_STATE};
use vmcp_wire::owned::OwnedParams;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use self::author::Author;
use self::call_arguments::CodeArguments;
use self::host::Host;
use self::kept::KeptScript;
pub(in crate::own_tools) use self::report::failed;
use self::settings::{job_of, job_settings, limits, pool_settings};
use self::waiting::Waiting;
use crate::answer::tool_result;
use crate::answer::{Answer, Content};
use crate::call;
use crate::call::input_rounds::{InputRounds, Next};
use crate::caller::{CallContext, Caller};
use crate::own_tools::arguments::dialect::Dialect;
use crate::own_tools::large_results::references;
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_engine::telemetry::traces::{self, OpenSpan, TraceSpan};

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

/// Bytes of `context` or `data` with the values of its references, 8 MiB.
const MAX_REFERENCED_BYTES: usize = 8 << 20;

/// Runs the script, or goes on with it, and answers with its result or its questions. `tool` runs scripts;
/// `params` are those of the call.
pub(in crate::own_tools) async fn run(
    context: CallContext<'_>,
    tool: OptimTool,
    params: &OwnedParams,
    arguments: &RawValue,
) -> Answer {
    let mut recorder = context.start_own_record(Origin::Own(tool), arguments);
    let span = TraceSpan::begin("optimizer.execute_code", OpenSpan::call);
    recorder.record().span = span.clone();
    let executed = traces::in_span(pin!(execute(context, tool, params, arguments)), &span).await;
    let (answer, outcome) = match executed {
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
enum ScriptPart {
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
    let mut arguments = match parsed {
        Ok(arguments) => arguments,
        Err(refused) => return Ok(End::Ended(refused, Outcome::ToolError)),
    };
    if let Some(conflict) = toolhive_value::conflict(context.view, &arguments.data) {
        return Err(conflict);
    }
    let mut kept = KeptScript::new(context, tool, params);
    let end = drive(context, params, &mut arguments, &mut kept).await;
    if end.is_err() && !caller.cancel.is_cancelled() {
        // The client has this answer: an equal call begins again.
        kept.forget().await;
    }
    end
}

/// Runs the parts of a script, and asks a legacy client between them. The script of a task is written first.
async fn drive(
    context: CallContext<'_>,
    params: &OwnedParams,
    arguments: &mut CodeArguments,
    kept: &mut KeptScript<'_>,
) -> Result<End, String> {
    let CallContext { snapshot, caller, .. } = context;
    let mut part = begin(context, params, kept).await?;
    let mut author = unless_cancelled(caller, Box::pin(prepare(context, &part, arguments))).await??;
    for _ in 0..MAX_QUESTION_ROUNDS {
        let run = run_part(context, Some(params), arguments, part);
        let (questions, state) = match unless_cancelled(caller, run).await?? {
            PartEnd::Ended { ran, may_have_changed, start_failure } => {
                let repaired = match (&mut author, &ran.finished.end) {
                    (Some(author), Err(failure)) => {
                        let repair = author.repair(&arguments.code, failure, may_have_changed);
                        unless_cancelled(caller, Box::pin(repair)).await?
                    }
                    _ => None,
                };
                arguments.start_failure = start_failure;
                let Some(script) = repaired else { return Ok(ended(ran, arguments)) };
                arguments.code = script;
                part = ScriptPart::New;
                continue;
            }
            PartEnd::AsksAgain(waiting, state) => (waiting::questions(&waiting), state),
            PartEnd::Waits { waiting, start_failure } => {
                arguments.start_failure = start_failure;
                // Behind the answer of its user, a script is not written again.
                author = None;
                let (questions, made, took) = (waiting::questions(&waiting), waiting.made, waiting.took);
                match waiting::write(*waiting, arguments.written(), arguments.start_failure.as_deref()) {
                    Ok(state) => (questions, state),
                    Err(failure) => {
                        let finished = Finished::failed(failure);
                        return Ok(ended(Ran { finished, calls: made, took }, arguments));
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
                part = ScriptPart::Waiting(state, object(answered.get(INPUT_RESPONSES)));
            }
            Next::Error(error) => return Err(message(&error)),
            Next::Complete => return Err("the question of a tool cannot be read".to_owned()),
        }
    }
    Err(format!("the tools of the script asked {MAX_QUESTION_ROUNDS} times"))
}

/// Returns the end of a call whose script has ended.
fn ended(ran: Ran, arguments: &CodeArguments) -> End {
    TraceSpan::current().fill(|open| open.number("calls", ran.calls));
    let outcome = if ran.finished.end.is_ok() { Outcome::Ok } else { Outcome::ToolError };
    End::Ended(report::result(ran, arguments), outcome)
}

/// Returns the output of `work`, or the error of a call that its client cancels meanwhile.
async fn unless_cancelled<T>(caller: &Caller, work: impl Future<Output = T>) -> Result<T, String> {
    tokio::select! {
        done = work => Ok(done),
        () = caller.cancel.cancelled() => Err("the call was cancelled".to_owned()),
    }
}

/// Completes the arguments for the first part: values of references in `context`, and the script of a task.
/// Returns the model that has written it, for a repair.
async fn prepare<'a>(
    context: CallContext<'a>,
    part: &ScriptPart,
    arguments: &mut CodeArguments,
) -> Result<Option<Author<'a>>, String> {
    match part {
        ScriptPart::New => {
            arguments.context_with_values =
                with_values(context, "context", arguments.context.as_ref()).await?;
            let data = (!arguments.data.is_empty()).then(|| Value::Object(arguments.data.clone()));
            if let Some(Value::Object(data)) = with_values(context, "data", data.as_ref()).await? {
                arguments.data = data;
            }
            let Some(task) = arguments.task.clone() else { return Ok(None) };
            let mut author = Author::new(context, &task, arguments).await?;
            arguments.code = author.write().await?;
            Ok(Some(author))
        }
        // The interpreter has the script and its values; the answer shows the script.
        ScriptPart::Waiting(state, _) => {
            arguments.start_failure = waiting::start_failure(state);
            if arguments.task.is_some() {
                arguments.code = waiting::written(state).unwrap_or_default();
            }
            Ok(None)
        }
    }
}

/// Returns the `context` or `data` of a script with the values of its references; `None`: it has none.
async fn with_values(
    context: CallContext<'_>,
    field: &str,
    given: Option<&Value>,
) -> Result<Option<Value>, String> {
    let is_on = context.snapshot.config.optimizer.large_results.enabled;
    let Some(given) = given.filter(|_| is_on) else { return Ok(None) };
    let given = to_raw_value(given).unwrap_or_default();
    let replaced = references::replaced_within(context, field, &given, MAX_REFERENCED_BYTES).await?;
    let parse = |json: Box<RawValue>| serde_json::from_str(json.get());
    replaced.map(parse).transpose().map_err(|error| format!("{field}: {error}"))
}

/// Returns the part to begin with: the script from its begin, or a script that waited for its client.
async fn begin(
    context: CallContext<'_>,
    params: &OwnedParams,
    kept: &mut KeptScript<'_>,
) -> Result<ScriptPart, String> {
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
            Ok(ScriptPart::Waiting(state, answers))
        }
        Some(_) => Err("`requestState` belongs to another tool; repeat the request without it".to_owned()),
        None => {
            let claimed = kept.claim().await.map_err(|error| error.to_string())?;
            Ok(claimed.map_or(ScriptPart::New, |state| ScriptPart::Waiting(state, Map::new())))
        }
    }
}

/// The end of a part.
enum PartEnd {
    Ended {
        ran: Ran,
        /// True if a call of the part may have changed something.
        may_have_changed: bool,
        /// The reason for which a worker ran the script of a Job.
        start_failure: Option<String>,
    },
    Waits {
        waiting: Box<Waiting>,
        /// As for [`PartEnd::Ended`].
        start_failure: Option<String>,
    },
    /// The client sent no answer: its state stays the same, so that it counts once.
    AsksAgain(Box<Waiting>, String),
}

/// Runs a script to its end or its next question. `params` are those of the call whose tools it calls.
async fn run_part(
    context: CallContext<'_>,
    params: Option<&OwnedParams>,
    arguments: &CodeArguments,
    part: ScriptPart,
) -> Result<PartEnd, String> {
    let config = &context.snapshot.config;
    let Some(workers) = context.engine.script_workers() else {
        return Err("this process cannot start workers for scripts".to_owned());
    };
    let limits = limits(config, arguments);
    let principal = context.caller.principal.key();
    let host = Host::new(context, arguments.dialect)
        .over_rows(arguments.is_over_rows)
        .with_meta(params.and_then(call::own_meta));
    let begun = Instant::now();
    let job = job_of(config, arguments.dialect);
    // The reason for which a worker runs the script of a Job, also after an earlier part of the call.
    let mut start_failure = arguments.start_failure.clone();
    loop {
        let script = match &part {
            ScriptPart::New => Script::New(StartScript {
                code: arguments.code.clone(),
                tool_script: tool_script(context, arguments),
                context: arguments.script_context().cloned(),
                namespaces: namespaces(context, arguments),
                limits: limits.clone(),
            }),
            ScriptPart::Waiting(state, answers) => {
                let mut waiting = waiting::read(state)?;
                if !waiting::answer(&mut waiting, answers) {
                    let waiting = Box::new(waiting);
                    return Ok(if answers.is_empty() {
                        PartEnd::AsksAgain(waiting, state.clone())
                    } else {
                        PartEnd::Waits { waiting, start_failure }
                    });
                }
                Script::Waiting(waiting, limits.clone())
            }
        };
        let waits = matches!(part, ScriptPart::Waiting(..));
        // A script that waits has left a worker, and goes on in one.
        let in_job = job.filter(|job| !job.falls_back || start_failure.is_none() && !waits);
        let end = match (in_job, context.engine.script_jobs()) {
            (None, _) => workers.run(&principal, pool_settings(config), script, &host).await,
            (Some(_), _) if waits => return Err(OTHER_ENGINE.to_owned()),
            (Some(job), Some(jobs)) => {
                let settings = job_settings(&config.code, job);
                let launch = jobs.launch(&settings, &limits);
                workers.run_in(&principal, pool_settings(config), launch, script, &host).await
            }
            (Some(job), None) if job.falls_back => {
                start_failure = Some(NO_JOBS.to_owned());
                continue;
            }
            (Some(_), None) => return Err(NO_JOBS.to_owned()),
        };
        match end {
            // An answer counts once, so a script that goes on waits for its place.
            ScriptEnd::Ended(ran) if is_busy(&ran) && is_patient(&part, begun) => sleep(PLACE_PAUSE).await,
            ScriptEnd::Ended(ran) => match job.filter(|job| job.falls_back && start_failure.is_none()) {
                Some(_) if did_not_start(&ran) => {
                    let why = ran.finished.end.err().map(|failure| failure.error).unwrap_or_default();
                    tracing::warn!(
                        error = why.as_str(),
                        "the Job of a script did not start; a worker runs the script"
                    );
                    start_failure = Some(why);
                }
                _ => {
                    let may_have_changed = host.may_have_changed();
                    return Ok(PartEnd::Ended { ran, may_have_changed, start_failure });
                }
            },
            ScriptEnd::Waits(waiting) => return Ok(PartEnd::Waits { waiting, start_failure }),
        }
    }
}

/// True if the script did not run, because others do.
fn is_busy(ran: &Ran) -> bool {
    ran.finished.end.as_ref().is_err_and(|failure| failure.error_type == "BusyError")
}

/// True if the script did not run, because its Job did not start. An exception of the same name takes time.
fn did_not_start(ran: &Ran) -> bool {
    ran.took.is_zero() && ran.finished.end.as_ref().is_err_and(|failure| failure.error_type == "StartError")
}

/// True if a part may wait longer for its place.
fn is_patient(part: &ScriptPart, begun: Instant) -> bool {
    matches!(part, ScriptPart::Waiting(..)) && begun.elapsed() < PLACE_TIME
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
/// their listed names, and in scripts over rows.
fn namespaces(context: CallContext<'_>, arguments: &CodeArguments) -> Vec<String> {
    if arguments.dialect == Dialect::ToolHive || arguments.is_over_rows {
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

#[cfg(test)]
mod tests;
