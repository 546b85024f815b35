//! `vmcp tools refresh`: lists backends again, and counts how their tools changed.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::cli::completions::candidates;
use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::progress;
use crate::cli::options::GlobalOptions;
use vmcp_engine::engine::{RefreshOutcome, Refreshed};

/// Time limit of the whole refresh. Backends are listed at once, a minute at most each; with `--force`, their
/// tools are embedded as well.
const REFRESH_LIMIT: Duration = Duration::from_mins(10);

/// List backends again and count which tools were added, updated and removed
#[derive(Debug, Args)]
#[command(after_help = "Ends with exit code 1 if a backend could not be listed.")]
pub(in crate::cli) struct RefreshArguments {
    /// Backend to list; without it, all
    #[arg(value_name = "BACKEND", add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Also embed all tools again, changed or not
    #[arg(long)]
    force: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// The answer of `POST /admin/refresh?wait=true`.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    servers: Vec<Refreshed>,
}

/// Runs the command.
pub(super) fn run(arguments: &RefreshArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    connection::with_server(global, &arguments.server_options, async |connection| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("wait", "true")
            .append_pair("force", if arguments.force { "true" } else { "false" });
        if let Some(backend) = &arguments.backend {
            let status = connection.status().await?;
            if !status.backends.iter().any(|known| known.name == *backend) {
                return Err(CommandFailure::new(format!("no backend is called `{backend}`"))
                    .exit(Exit::NothingFound)
                    .remedy("`vmcp backends` lists them"));
            }
            query.append_pair("backend", backend);
        }
        let spinner = progress::spinner("listing the backends");
        let report: Report =
            connection.post_for(&format!("admin/refresh?{}", query.finish()), REFRESH_LIMIT).await?;
        spinner.finish_and_clear();
        output::print(arguments.output, &report, || {
            output::table(
                ["BACKEND", "ADDED", "UPDATED", "REMOVED", "UNCHANGED"],
                report.servers.iter().map(row),
            )
        })?;
        let mut exit = Exit::Done;
        for Refreshed { server, outcome } in &report.servers {
            if let RefreshOutcome::Failed { error } = outcome {
                notes::note(&format!("{server}: {error}"));
                exit = Exit::Failed;
            }
        }
        Ok(exit)
    })
}

fn row(refreshed: &Refreshed) -> [String; 5] {
    let counts = match &refreshed.outcome {
        RefreshOutcome::Counted { added, updated, removed, unchanged } => {
            [*added, *updated, *removed, *unchanged].map(|count| count.to_string())
        }
        RefreshOutcome::Failed { .. } => ["failed", "-", "-", "-"].map(str::to_owned),
    };
    let [added, updated, removed, unchanged] = counts;
    [refreshed.server.clone(), added, updated, removed, unchanged]
}
