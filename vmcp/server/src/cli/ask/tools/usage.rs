//! `vmcp tools metrics`: the tokens that contexts saved at `GET /tools` of the running server.

use clap::Args;

use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use vmcp_engine::telemetry::topic_usage::{Figures, UsageReport};

/// Show the tokens that contexts saved at GET /tools
#[derive(Debug, Args)]
#[command(after_help = "`vmcp metrics` shows calls, success rate and latency of each tool.")]
pub(in crate::cli) struct UsageArguments {
    /// Begin the figures again
    #[arg(long)]
    reset: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(super) fn run(arguments: &UsageArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    connection::with_server(global, &arguments.server_options, async |server| {
        if arguments.reset {
            server.post("admin/tools/usage/reset").await?;
            notes::note("figures begin anew");
            return Ok(Exit::Done);
        }
        let report: UsageReport = server.admin("admin/tools/usage").await?;
        output::print(arguments.output, &report, || table(&report))?;
        Ok(Exit::Done)
    })
}

fn table(report: &UsageReport) -> String {
    let row = |name: &str, figures: &Figures, reduction: &str| {
        let numbers = [figures.requests, figures.total_tokens, figures.avg_tokens_per_request];
        let [requests, tokens, mean] = numbers.map(|number| number.to_string());
        [name.to_owned(), requests, tokens, mean, reduction.to_owned(), figures.since.clone()]
    };
    let rows =
        [row("whole list", &report.baseline, ""), row("filtered", &report.filtered, &report.reduction)];
    output::table(["ANSWERS", "REQUESTS", "TOKENS", "MEAN", "SAVED", "SINCE"], rows)
}
