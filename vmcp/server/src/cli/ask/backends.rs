//! `vmcp backends`: shows the state of each backend.

use clap::Args;
use serde_json::json;
use vmcp_config::status::{BackendState, BackendStatus, StatusReport};

use crate::cli::connection::{self, Readiness, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::paint::Tone;
use crate::cli::options::GlobalOptions;

/// Show the state of each backend
#[derive(Debug, Args)]
#[command(after_help = "`vmcp doctor` says what to do about a backend that is not there.")]
pub(in crate::cli) struct Arguments {
    /// Also list definitions that were renamed or left out, and why
    #[arg(short, long)]
    verbose: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { verbose, output: format, server_options } = arguments;
    connection::with_connection(global, &server_options, &Readiness::Backends, async |connection| {
        let status = connection.status().await?;
        let everything = json!({ "backends": status.backends, "issues": status.issues });
        output::print(format, &everything, || human_text(&status, verbose))?;
        if let Some(refused) = &status.configuration.refused {
            notes::note(&format!("the last edit of the configuration is not in force:\n{}", refused.message));
        }
        if status.backends.is_empty() {
            notes::note("no backends are configured");
            return Ok(Exit::NothingFound);
        }
        Ok(Exit::Done)
    })
}

fn human_text(status: &StatusReport, verbose: bool) -> String {
    let StatusReport { backends, issues, .. } = status;
    if backends.is_empty() {
        return String::new();
    }
    let header = ["NAME", "STATE", "TRANSPORT", "PROTOCOL", "TOOLS", "RESOURCES", "PROMPTS"];
    let mut parts = vec![output::toned_table(header, backends.iter().map(row))];
    let error = |backend: &BackendStatus| Some(format!("{}: {}", backend.name, backend.last_error.as_ref()?));
    let errors: Vec<_> = backends.iter().filter_map(error).collect();
    if !errors.is_empty() {
        parts.push(format!("LAST ERROR\n{}", errors.join("\n")));
    }
    let signed_in: Vec<_> = backends.iter().filter_map(sign_in).collect();
    if !signed_in.is_empty() {
        parts.push(format!("SIGNED IN\n{}", signed_in.join("\n")));
    }
    let advice = |backend: &BackendStatus| {
        backend.advice.iter().map(|advice| format!("{}: {advice}", backend.name)).collect::<Vec<_>>()
    };
    let advice: Vec<_> = backends.iter().flat_map(advice).collect();
    if !advice.is_empty() {
        parts.push(format!("ADVICE\n{}", advice.join("\n")));
    }
    if verbose && !issues.is_empty() {
        parts.push(issues.join("\n"));
    } else if !issues.is_empty() {
        notes::note(&format!(
            "{} definitions were renamed, mended, left out or not found; -v says which and why",
            issues.len()
        ));
    }
    parts.join("\n\n")
}

/// Returns the state in words for a person who has just configured the backend.
fn state_in_words(state: BackendState, known: bool) -> &'static str {
    match state {
        BackendState::Configured if known => "idle (starts when called)",
        BackendState::Configured => "not used yet",
        BackendState::Connecting => "connecting",
        BackendState::Connected => "connected",
        BackendState::Failed => "failed",
    }
}

/// Returns the tone of a state that needs attention.
fn tone(state: BackendState) -> Option<Tone> {
    match state {
        BackendState::Configured | BackendState::Connected => None,
        BackendState::Connecting => Some(Tone::Warning),
        BackendState::Failed => Some(Tone::Bad),
    }
}

fn row(backend: &BackendStatus) -> (Option<Tone>, [String; 7]) {
    let BackendStatus {
        name, transport, state, revision, tools, resources, prompts, rejected, cached, ..
    } = backend;
    let rejected = if *rejected == 0 { String::new() } else { format!(" ({rejected} rejected)") };
    let cached = if *cached { " (cached)" } else { "" };
    let cells = [
        name.clone(),
        state_in_words(*state, tools.is_some()).to_owned(),
        transport.clone(),
        revision.clone().unwrap_or_else(|| "-".to_owned()),
        tools.map_or_else(|| "-".to_owned(), |tools| format!("{tools}{rejected}{cached}")),
        resources.to_string(),
        prompts.to_string(),
    ];
    (tone(*state), cells)
}
/// Returns the line on a person's sign-in; a sign-in that the issuer refuses has ended.
fn sign_in(backend: &BackendStatus) -> Option<String> {
    let at = humantime::format_rfc3339_seconds(backend.signed_in_at?);
    let name = &backend.name;
    let is_refused =
        |error: &String| ["invalid_grant", "a person to sign in"].iter().any(|sign| error.contains(sign));
    Some(if backend.last_error.as_ref().is_some_and(is_refused) {
        format!("{name}: not any more, the sign-in of {at} is refused; `vmcp login {name}`")
    } else {
        format!("{name}: since {at}; `vmcp logout {name}` ends it")
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_refused_sign_in_is_said_to_have_ended() {
        let backend = |last_error: Option<&str>| BackendStatus {
            name: "notes".to_owned(),
            signed_in_at: Some(SystemTime::UNIX_EPOCH),
            last_error: last_error.map(str::to_owned),
            ..BackendStatus::default()
        };
        assert!(sign_in(&backend(None)).unwrap().contains("`vmcp logout notes`"));
        assert!(sign_in(&backend(Some("HTTP status 500"))).unwrap().contains("`vmcp logout notes`"));
        let refused = sign_in(&backend(Some("the login cannot be renewed: invalid_grant"))).unwrap();
        assert!(refused.contains("refused") && refused.contains("`vmcp login notes`"), "{refused}");
    }
}
