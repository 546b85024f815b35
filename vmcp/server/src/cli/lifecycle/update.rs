//! `vmcp update`: newer versions of the servers that package runners install.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use vmcp_backend::{PackageRun, PinnedPrograms};

use crate::cli::completions::candidates;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{notes, progress};
use crate::cli::options::GlobalOptions;
use crate::cli::process::block_on;
use vmcp_engine::folders;

/// Take newer versions of the servers that npx, uvx, pnpm and bun install
///
/// vmcp starts these servers in the version that their runner installed first. This command has npx, uvx,
/// `pnpm dlx` and bunx look again, and pins what they install: the newest version that the command line in
/// the configuration allows. A running server starts it at the backend's next start.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp update --check      # only tell
  vmcp update              # all backends that npx, uvx, pnpm or bun start
  vmcp update github && vmcp restart github

proxy.pinPackages: false leaves the choice of the version to the runner, at each start.")]
pub(in crate::cli) struct Arguments {
    /// Name of a backend; default: all
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Only tell which versions there are; the pinned ones stay
    #[arg(long)]
    check: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Result for one backend.
#[derive(Debug, Serialize)]
struct Update {
    backend: String,
    package: String,
    /// Version that was pinned before.
    before: Option<String>,
    /// Version that is pinned now, or the newest one with `--check`.
    newest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { backend: only, check, output: format } = arguments;
    let config = global.load_file(&global.config_or_running()?)?.config;
    if let Some(name) = only
        && !config.backends.iter().any(|backend| *backend.name == **name)
    {
        return Err(CommandFailure::new(format!("no backend is called `{name}`"))
            .exit(Exit::NothingFound)
            .remedy("`vmcp backends` lists them"));
    }
    let wanted =
        config.backends.iter().filter(|backend| only.as_ref().is_none_or(|name| *backend.name == **name));
    let runs: Vec<_> = wanted
        .filter_map(|backend| Some((backend.name.to_string(), PackageRun::of(&backend.transport)?)))
        .collect();
    let pins = folders::pinned_programs().ok_or_else(|| {
        CommandFailure::new("there is no home directory to pin programs in").remedy("set HOME")
    })?;
    let updates = block_on(async {
        let mut updates = Vec::new();
        for (backend, run) in &runs {
            let spinner = progress::spinner(format!("{backend}: {}", run.package()));
            updates.push(update(backend, run, &pins, *check).await);
            spinner.finish_and_clear();
        }
        Ok(updates)
    })?;
    output::print(*format, &updates, || human_text(&updates, *check))?;
    if updates.is_empty() {
        notes::note("npx, uvx, pnpm and bun start no such backend in a way that can be pinned");
        return Ok(Exit::NothingFound);
    }
    if !config.proxy.pin_packages {
        notes::note("`proxy.pinPackages` is false: the runner chooses the version at each start");
    } else if let Some(changed) = updates.iter().find(|update| update.is_newer()) {
        let remedy = if *check { "update" } else { "restart" };
        notes::note(&format!("`vmcp {remedy} {}` brings the newer one into use", changed.backend));
    }
    Ok(if updates.iter().any(|update| update.error.is_some()) { Exit::Failed } else { Exit::Done })
}

async fn update(backend: &str, run: &PackageRun, pins: &PinnedPrograms, check: bool) -> Update {
    let before = pins.find(run).map(|pinned| pinned.version);
    let newest = if check {
        run.newest().await
    } else {
        run.update().await.and_then(|program| match pins.save(run, &program) {
            Ok(()) => Ok(program.version),
            Err(error) => Err(format!("cannot pin version {}: {error}", program.version)),
        })
    };
    let (newest, error) = match newest {
        Ok(version) => (Some(version), None),
        Err(error) => (None, Some(error)),
    };
    Update { backend: backend.to_owned(), package: run.package().to_owned(), before, newest, error }
}

impl Update {
    fn is_newer(&self) -> bool {
        self.newest.is_some() && self.before.is_some() && self.newest != self.before
    }
}

fn human_text(updates: &[Update], check: bool) -> String {
    if updates.is_empty() {
        return String::new();
    }
    let header = ["BACKEND", "BEFORE", if check { "NEWEST" } else { "NOW" }, "PACKAGE"];
    let version = |version: Option<&str>| version.unwrap_or("-").to_owned();
    let row = |update: &Update| {
        [
            update.backend.clone(),
            version(update.before.as_deref()),
            version(update.newest.as_deref()),
            update.package.clone(),
        ]
    };
    let mut parts = vec![output::table(header, updates.iter().map(row))];
    let error = |update: &Update| Some(format!("{}: {}", update.backend, update.error.as_ref()?));
    let errors: Vec<_> = updates.iter().filter_map(error).collect();
    if !errors.is_empty() {
        parts.push(format!("NOT UPDATED\n{}", errors.join("\n")));
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::paint;

    #[test]
    fn versions_before_and_after_stand_side_by_side_and_failures_below() {
        let update =
            |backend: &str, before: Option<&str>, newest: Option<&str>, error: Option<&str>| Update {
                backend: backend.to_owned(),
                package: format!("{backend}-mcp"),
                before: before.map(str::to_owned),
                newest: newest.map(str::to_owned),
                error: error.map(str::to_owned),
            };
        let updates = [
            update("notes", Some("1.0.0"), Some("1.1.0"), None),
            update("time", None, Some("2.0"), None),
            update("gone", Some("3.0"), None, Some("`npx` ended with exit status: 1: npm error 404")),
        ];
        let text = paint::plain(&human_text(&updates, false));
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[0], ["BACKEND", "BEFORE", "NOW", "PACKAGE"]);
        assert_eq!(lines[1], ["notes", "1.0.0", "1.1.0", "notes-mcp"]);
        assert_eq!(lines[2], ["time", "-", "2.0", "time-mcp"]);
        assert!(
            text.ends_with("NOT UPDATED\ngone: `npx` ended with exit status: 1: npm error 404"),
            "{text}"
        );
        assert_eq!(updates.map(|update| update.is_newer()), [true, false, false]);
    }
}
