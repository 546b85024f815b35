//! `vmcp doctor`: checks everything that has to work, with a remedy for each failed check.

mod checks;
mod finding;
pub(in crate::cli) mod needed_programs;
pub(in crate::cli) mod remedies;

use clap::Args;
use clap_complete::ArgValueCandidates;
use vmcp_backend::{PackageRun, PinnedPrograms};
use vmcp_config::Problem;
use vmcp_config::status::BackendStatus;

use crate::cli::completions::candidates;
use crate::cli::connection::{self, Connection, Readiness, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes::counted;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use finding::{Finding, Health, human_text};
use vmcp_engine::folders;

/// Most tools that the finding about definitions names.
const MAX_NAMED: usize = 3;

/// Find out what is wrong, and what to do about it
///
/// Checks the configuration, the model, the storage folder and each backend: whether it connects, which
/// protocol revision it speaks, what it offers, and how long it takes.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 1 when something is broken.\n\nExamples:\n  vmcp doctor\n  vmcp doctor github --local"
)]
pub(in crate::cli) struct Arguments {
    /// Check only this backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Begin of the last error of a backend that a call of a client met.
const CALLS: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

/// Keeps errors of calls, which the listing that doctor asks for has cleared: a server may list its tools and
/// refuse each call.
fn keep_call_errors(now: &mut [BackendStatus], before: &[BackendStatus]) {
    for backend in now.iter_mut().filter(|backend| backend.last_error.is_none()) {
        let former = before.iter().find(|former| former.name == backend.name);
        let error = former.and_then(|former| former.last_error.as_ref());
        let of_call = |error: &&String| CALLS.iter().any(|call| error.starts_with(call));
        backend.last_error = error.filter(of_call).cloned();
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { backend: only, output: format, server_options } = arguments;
    connection::with_connection(global, &server_options, &Readiness::Backends, async |connection| {
        let before = connection.status().await?;
        connection.refresh_backends(server_options.wait).await?;
        let mut status = connection.status().await?;
        keep_call_errors(&mut status.backends, &before.backends);
        let mut findings = Vec::new();
        let file =
            if server_options.names_server() { global.load_if_any() } else { global.load_or_running() };
        let file = file.unwrap_or_else(|failure| {
            findings.push(Finding::broken("configuration", failure.message(), "mend the file"));
            None
        });
        if only.is_none() {
            if let Some(file) = &file {
                let finding = format!(
                    "{} is valid: {}",
                    file.path.display(),
                    counted(file.config.backends.len(), "backend")
                );
                findings.push(Finding::good("configuration", finding));
                findings.extend(file.warnings.iter().map(|Problem { path, message, remedy, .. }| {
                    // A warning about a file beside the configuration has no path.
                    let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
                    Finding::degraded("configuration", format!("{place}{message}"), remedy)
                }));
            }
            findings.push(checks::server(connection, &status));
            match (connection, &file) {
                (Connection::InProcess(_), Some(file)) => {
                    findings.push(checks::storage(&file.config));
                    findings.push(checks::embeddings(&file.config).await);
                }
                _ => findings.push(checks::embeddings_of_server(&status.embeddings)),
            }
        }
        let wanted = |backend: &&BackendStatus| only.as_ref().is_none_or(|only| *only == backend.name);
        let config = file.as_ref().map(|file| &file.config);
        let backends: Vec<_> = status
            .backends
            .iter()
            .filter(wanted)
            .map(|backend| checks::of_backend(backend, config, connection))
            .collect();
        if let Some(name) = &only
            && backends.is_empty()
        {
            return Err(CommandFailure::new(format!("no backend is called `{name}`"))
                .exit(Exit::NothingFound)
                .remedy("`vmcp backends` lists them"));
        }
        findings.extend(backends);
        if let Some(config) = config.filter(|config| config.proxy.pin_packages)
            && let Some(pins) = folders::pinned_programs()
        {
            let of_wanted = |backend: &&vmcp_config::Backend| {
                status.backends.iter().filter(wanted).any(|known| known.name == *backend.name)
            };
            findings.extend(
                config.backends.iter().filter(of_wanted).filter_map(|backend| pinned(backend, &pins)),
            );
        }
        for backend in status.backends.iter().filter(wanted) {
            findings.extend(backend.advice.iter().map(|advice| {
                let (says, remedy) =
                    advice.split_once("; ").unwrap_or((advice, "`vmcp backends` tells more"));
                Finding::degraded(&backend.name, says, remedy)
            }));
        }
        if only.is_none() && !status.issues.is_empty() {
            let finding = definitions(&status.issues);
            findings.push(Finding::degraded("definitions", finding, "`vmcp backends -v` says which and why"));
        }
        output::print(format, &findings, || human_text(&findings))?;
        let broken = findings.iter().any(|finding| finding.health == Health::Broken);
        Ok(if broken { Exit::Failed } else { Exit::Done })
    })
}

/// Says which version of a package runner's program is started in the runner's place.
fn pinned(backend: &vmcp_config::Backend, pins: &PinnedPrograms) -> Option<Finding> {
    let pinned = pins.find(&PackageRun::of(&backend.transport)?)?;
    let says = format!("pinned to {} {} until `vmcp update`", pinned.package, pinned.version);
    Some(Finding::good(&backend.name, says))
}

/// Says how many definitions need attention, and names the first tools that lists do not have.
fn definitions(issues: &[String]) -> String {
    let unlisted: Vec<_> = issues
        .iter()
        .filter_map(|issue| issue.strip_prefix("UnlistedDefinition: "))
        .filter_map(|issue| issue.split(": ").next())
        .collect();
    let named = unlisted.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    let named = match unlisted.len().saturating_sub(MAX_NAMED) {
        _ if unlisted.is_empty() => String::new(),
        0 => format!("; lists do without {named}"),
        more => format!("; lists do without {named} and {more} more"),
    };
    format!("{} were renamed, mended, left out or not found{named}", issues.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_call_outlives_the_listing_that_doctor_asks_for() {
        let status = |name: &str, last_error: Option<&str>| BackendStatus {
            name: name.to_owned(),
            last_error: last_error.map(str::to_owned),
            ..BackendStatus::default()
        };
        let quota = "tools/call failed: HTTP status 402: no quota";
        let before =
            [status("a", Some(quota)), status("b", Some("cannot connect: refused")), status("c", None)];
        let mut now = [status("a", None), status("b", None), status("c", Some("listing failed"))];
        keep_call_errors(&mut now, &before);
        let errors = now.map(|backend| backend.last_error);
        assert_eq!(errors, [Some(quota.to_owned()), None, Some("listing failed".to_owned())]);
    }

    #[test]
    fn tools_that_lists_do_without_are_named() {
        let issue = |name: &str| format!("UnlistedDefinition: tool {name} of backend a: it is left out: why");
        let renamed = "NamePrefixed: tool x of backend a: y".to_owned();
        assert_eq!(
            definitions(std::slice::from_ref(&renamed)),
            "1 were renamed, mended, left out or not found"
        );
        let found = definitions(&[renamed, issue("one"), issue("two")]);
        assert!(
            found.ends_with("; lists do without tool one of backend a, tool two of backend a"),
            "{found}"
        );
        let found = definitions(&["a", "b", "c", "d", "e"].map(issue));
        assert!(found.ends_with("tool c of backend a and 2 more"), "{found}");
    }
}
