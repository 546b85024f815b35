//! `vmcp call`: calls a tool by its name, with arguments from the command line.

mod arguments;
mod consent;

use std::io::Read as _;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::{Map, Value, json};

use crate::cli::completions::candidates;
use crate::cli::connection::tool_report::ToolReport;
use crate::cli::connection::{self, CallFailure, Connection, Consent, Readiness, ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{progress, tool_result};
use crate::cli::operate::doctor::remedies;
use crate::cli::options::GlobalOptions;

use vmcp_engine::optim::names::{OptimTool, OwnName, own_name};

/// Call a tool
///
/// Arguments are checked against the schema of the tool before its backend sees them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp call time_get_current_time timezone=Asia/Tokyo
  vmcp call github_create_issue repo=a/b title='It breaks' labels=bug,urgent
  vmcp call search_query --json '{\"query\": \"rust\", \"filter\": {\"year\": 2026}}'
  vmcp call search_query '{\"query\": \"rust\"}' limit=5
  vmcp call search_query --json @query.json limit=5
  vmcp call shop_delete_order id=7 --yes")]
pub(in crate::cli) struct Arguments {
    /// Name of the tool, as `vmcp tools` and `vmcp find` show it
    #[arg(add = ArgValueCandidates::new(candidates::tools))]
    name: String,
    /// Arguments, typed by the schema of the tool: numbers, true and false, lists as a,b or JSON, `a.b=c` for
    /// a member of an object; or all of them as one JSON object
    #[arg(value_name = "KEY=VALUE", add = ArgValueCandidates::new(candidates::parameters))]
    pairs: Vec<String>,
    /// Arguments as a JSON object; @FILE reads a file, - standard input; pairs override its members
    #[arg(short, long, value_name = "JSON")]
    json: Option<String>,
    /// Time that the tool may take, such as 30s [default: as configured]
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Consent to a call that `aggregation.confirm` holds back, without being asked at the terminal
    #[arg(short, long)]
    yes: bool,
    /// Format of the result: the text of the answer, or the whole answer
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { name, mut pairs, mut json, timeout, yes, output: format, server_options } = arguments;
    // An object in the place of the first pair.
    if json.is_none() && pairs.first().is_some_and(|first| first.trim_start().starts_with('{')) {
        json = Some(pairs.remove(0));
    }
    let pairs = arguments::split(&pairs)
        .map_err(|error| usage(error).remedy("write KEY=VALUE for each; an object in JSON comes first"))?;
    let base = json.map(|source| read_object(&source)).transpose()?.unwrap_or_default();
    let wait = server_options.wait;
    connection::with_connection(global, &server_options, &Readiness::Tool(&name), async |connection| {
        let mut given = typed(connection, &name, &base, &pairs).await?;
        let mut answer = call(connection, &name, given.clone(), timeout, Consent::Absent).await;
        if is_unknown(&answer) && connection.wait_for_starts(wait).await {
            given = typed(connection, &name, &base, &pairs).await?;
            answer = call(connection, &name, given.clone(), timeout, Consent::Absent).await;
        }
        let mut result = answer?;
        if consent::is_missing(&result) {
            consent::obtain(&result, &given, yes)?;
            result = call(connection, &name, given, timeout, Consent::Given).await?;
        }
        let failure = tool_result::is_error(&result).then(|| explain(&name, &result));
        match failure {
            Some(failure) if format == OutputFormat::Table => Err(failure),
            failure => {
                output::print(format, &result, || tool_result::text(&result))?;
                Ok(failure.map_or(Exit::Done, |failure| failure.exit_code()))
            }
        }
    })
}

fn usage(error: String) -> CommandFailure {
    CommandFailure::new(error).exit(Exit::Usage)
}

/// Returns the arguments of a call: the object, with the pairs over it.
async fn typed(
    connection: &Connection,
    name: &str,
    base: &Map<String, Value>,
    pairs: &[arguments::Pair],
) -> Result<Map<String, Value>, CommandFailure> {
    let mut given = base.clone();
    if !pairs.is_empty() {
        let schema = input_schema(connection, name).await;
        arguments::lay_over(&mut given, pairs, &schema).map_err(usage)?;
    }
    Ok(given)
}

/// True for the answer about a tool that does not exist, or that no server has listed yet. It names no
/// server: a tool's own answer may have the same words, and the tool must not be called twice.
fn is_unknown(answer: &Result<Value, CommandFailure>) -> bool {
    match answer {
        Ok(result) => {
            let own = result.get("structuredContent").unwrap_or(&Value::Null);
            let is_of_no_server = own.get("server").is_some_and(Value::is_null);
            let is_absent = own.get("error_type").is_some_and(|kind| kind == "NotFound");
            tool_result::is_error(result) && is_of_no_server && is_absent
        }
        Err(failure) => failure.exit_code() == Exit::NothingFound,
    }
}

/// Calls through call_tool, which checks the arguments; directly if the optimizer is off or the tool is one
/// of vmcp's own. A spinner shows meanwhile.
async fn call(
    connection: &Connection,
    name: &str,
    arguments: Map<String, Value>,
    timeout: Option<Duration>,
    consent: Consent,
) -> Result<Value, CommandFailure> {
    let mut request = Map::new();
    request.insert("tool_name".to_owned(), name.into());
    request.insert("parameters".to_owned(), Value::Object(arguments.clone()));
    request.extend(timeout.map(|timeout| ("timeout".to_owned(), json!(timeout.as_secs_f64()))));
    let work = async {
        if own_name(name).is_none() {
            let answered = connection.call("optim.call_tool", request, consent).await;
            if !matches!(answered, Err(CallFailure::UnknownTool)) {
                return answered;
            }
        }
        connection.call(name, arguments, consent).await
    };
    let spinner = progress::spinner(format!("calling {name}"));
    let result = work.await;
    spinner.finish_and_clear();
    result.map_err(|failure| match failure {
        CallFailure::UnknownTool => unknown(name),
        CallFailure::Other(failure) => failure,
    })
}

/// Returns the input schema of the tool. Null if it cannot be read; values are then typed by their form.
async fn input_schema(connection: &Connection, name: &str) -> Value {
    let tools =
        connection.admin::<ToolReport>("admin/tools").await.map(|tools| tools.tools).unwrap_or_default();
    let mut found = tools.into_iter().find(|tool| tool.name == name);
    found
        .as_mut()
        .and_then(|tool| tool.definition.get_mut("inputSchema"))
        .map(Value::take)
        .unwrap_or_default()
}

fn read_object(source: &str) -> Result<Map<String, Value>, CommandFailure> {
    let text = match (source, source.strip_prefix('@')) {
        ("-", _) => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        (_, Some(path)) => {
            std::fs::read_to_string(path).map_err(|error| CommandFailure::new(format!("{path}: {error}")))?
        }
        (json, None) => json.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|error| CommandFailure::new(format!("--json is no JSON object: {error}")).exit(Exit::Usage))
}

/// True if the tool runs scripts: the error of a result is that of the caller's own code.
fn is_script(name: &str) -> bool {
    let own = own_name(name);
    matches!(own, Some(OwnName::Reserved(tool) | OwnName::Bare(tool)) if OptimTool::OF_SCRIPTS.contains(&tool))
}

fn unknown(name: &str) -> CommandFailure {
    CommandFailure::new(format!("there is no tool {name}"))
        .exit(Exit::NothingFound)
        .remedy("`vmcp tools` lists the names, `vmcp find \"…\"` searches")
}

/// Returns the failure that a result reports. Results of vmcp's own carry an `error_type`, which decides the
/// remedy.
fn explain(name: &str, result: &Value) -> CommandFailure {
    let own = result.get("structuredContent");
    let of = |key: &str| own.and_then(|own| own.get(key)).and_then(Value::as_str);
    match (of("error_type"), of("error")) {
        (Some(kind), Some(error)) if is_script(name) => {
            let line = own.and_then(|own| own.get("line")).map(|line| format!(", line {line}"));
            let failure = CommandFailure::new(format!("{kind}{}: {error}", line.unwrap_or_default()));
            if kind == "TimeoutError" {
                failure.remedy("allow it more time with timeout_ms=MILLISECONDS")
            } else {
                failure
            }
        }
        (Some("NotFound"), Some(error)) => CommandFailure::new(error)
            .exit(Exit::NothingFound)
            .remedy("`vmcp tools` lists the names, `vmcp find \"…\"` searches"),
        (Some(kind), Some(error)) => {
            let exit = if kind == "CircuitOpen" { Exit::Unreachable } else { Exit::Failed };
            let failure = CommandFailure::new(error).exit(exit);
            match kind {
                "InvalidInput" => {
                    failure.remedy(format!("`vmcp tools {name}` shows what it takes, with an example"))
                }
                "TimeoutError" => failure.remedy("allow it more time with --timeout"),
                "NotConfirmed" => failure.remedy(
                    "a client that shows questions can call it; `aggregation.confirm` names the tools that ask",
                ),
                _ => failure.remedy(of("server").and_then(|server| remedies::for_error(server, error)).unwrap_or_else(
                    || "`vmcp doctor` looks at the backend".to_owned(),
                )),
            }
        }
        _ => CommandFailure::new(tool_result::text(result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_told_once_with_the_remedy_of_its_cause() {
        let lacks = "credentials were refused (HTTP 403): the token lacks the scope `notes:write`";
        for (kind, error, exit, remedy) in [
            ("Unauthorized", lacks, Exit::Failed, "`vmcp login notes --scope notes:write`"),
            ("CircuitOpen", "next try in 3 seconds", Exit::Unreachable, "`vmcp doctor`"),
            ("NotFound", "there is no tool x", Exit::NothingFound, "`vmcp tools`"),
            ("InvalidInput", "`text` is missing", Exit::Failed, "`vmcp tools notes_add`"),
            ("TimeoutError", "no answer", Exit::Failed, "--timeout"),
            ("NotConfirmed", "nobody was asked", Exit::Failed, "`aggregation.confirm`"),
            ("ServerError", "something new", Exit::Failed, "`vmcp doctor` looks at the backend"),
        ] {
            let content = json!({ "error_type": kind, "error": error, "server": "notes" });
            let failure = explain("notes_add", &json!({ "structuredContent": content }));
            assert_eq!((failure.message(), failure.exit_code()), (error, exit), "{kind}");
            let told = failure.remedy_text().unwrap_or_default();
            assert!(told.contains(remedy), "{kind}: {told}");
        }
    }
}
