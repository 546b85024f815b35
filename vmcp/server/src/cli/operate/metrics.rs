//! `vmcp metrics`: calls, success rate and latency of each tool, of the running server or from its database.

use clap::Args;
use url::form_urlencoded;
use vmcp_store::StateStore;

use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use vmcp_engine::folders;
use vmcp_engine::telemetry::tool_metrics::book::MetricsBook;
use vmcp_engine::telemetry::tool_metrics::report::{MetricsOrder, MetricsQuery, MetricsReport, report};

/// Show calls, success rate and latency of each tool
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp metrics
  vmcp metrics --failing
  vmcp metrics --backend github --tool create_issue -o json
  vmcp metrics --backend github --reset

Without a running server, the database of the configuration is read.")]
pub(in crate::cli) struct Arguments {
    /// Only tools of this backend
    #[arg(short, long, value_name = "NAME")]
    backend: Option<String>,
    /// Only the tool with this name, its backend's own
    #[arg(short, long, value_name = "NAME", requires = "backend")]
    tool: Option<String>,
    /// The most reliable tools first
    #[arg(long)]
    top: bool,
    /// Only tools that fail too often, the worst first
    #[arg(long, conflicts_with = "top")]
    failing: bool,
    /// Most tools to show, with --top or --failing
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    limit: usize,
    /// Fewest calls of a tool, with --top
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    min_calls: u64,
    /// Success rate below which a tool is failing, with --failing
    #[arg(long, value_name = "RATE", default_value_t = 0.5)]
    threshold: f64,
    /// Forget the metrics of the chosen tools
    #[arg(long, conflicts_with_all = ["top", "failing"])]
    reset: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

impl Arguments {
    fn query(&self) -> MetricsQuery {
        let sort = match (self.top, self.failing) {
            (true, _) => Some(MetricsOrder::Top),
            (_, true) => Some(MetricsOrder::Failing),
            _ => None,
        };
        MetricsQuery {
            server: self.backend.clone(),
            tool: self.tool.clone(),
            sort,
            limit: Some(self.limit),
            min_calls: Some(self.min_calls),
            threshold: Some(self.threshold),
            scope: None,
        }
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let query = arguments.query();
    connection::with_server_if_any(global, &arguments.server_options, async |connection| {
        if arguments.reset {
            if let Some(server) = connection {
                server.post(&format!("admin/tool-metrics/reset?{}", encoded(&query))).await?;
            } else {
                let store = database(global)?;
                store
                    .reset_tool_metrics(query.server.as_deref(), query.tool.as_deref())
                    .map_err(|error| CommandFailure::new(error.to_string()))?;
            }
            notes::note("forgotten");
            return Ok(Exit::Done);
        }
        // Asked without the name of the tool: the answer for an unknown one is an error.
        let all = MetricsQuery { tool: None, ..query.clone() };
        let mut found: MetricsReport = match connection {
            Some(server) => server.admin(&format!("admin/tool-metrics?{}", encoded(&all))).await?,
            None => saved(global, &all)?,
        };
        found.tools.retain(|tool| query.tool.as_ref().is_none_or(|wanted| *wanted == tool.tool));
        output::print(arguments.output, &found, || table(&found))?;
        if found.tools.is_empty() {
            notes::note("no such call was counted");
            return Ok(Exit::NothingFound);
        }
        Ok(Exit::Done)
    })
}

/// Writes the query of a URL.
fn encoded(query: &MetricsQuery) -> String {
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    let sort = query.sort.map(|sort| match sort {
        MetricsOrder::Top => "top",
        MetricsOrder::Failing => "failing",
    });
    let texts = [("server", query.server.as_deref()), ("tool", query.tool.as_deref()), ("sort", sort)];
    let numbers = [
        ("limit", query.limit.map(|limit| limit.to_string())),
        ("min_calls", query.min_calls.map(|calls| calls.to_string())),
        ("threshold", query.threshold.map(|rate| rate.to_string())),
    ];
    for (name, value) in texts {
        pairs.extend_pairs(value.map(|value| (name, value)));
    }
    for (name, value) in numbers {
        pairs.extend_pairs(value.map(|value| (name, value)));
    }
    pairs.finish()
}

/// Opens the database that a server with this configuration uses.
fn database(global: &GlobalOptions) -> Result<StateStore, CommandFailure> {
    let dir = folders::storage_dir(&global.load()?.config);
    StateStore::open(&dir).map_err(|error| CommandFailure::new(error.to_string()))
}

/// Reads the figures from the database.
fn saved(global: &GlobalOptions, query: &MetricsQuery) -> Result<MetricsReport, CommandFailure> {
    let all = database(global)?.all_tool_metrics();
    let book: MetricsBook =
        all.map_err(|error| CommandFailure::new(error.to_string()))?.into_iter().collect();
    Ok(report(&book, None, query, |_| true))
}

fn table(report: &MetricsReport) -> String {
    if report.tools.is_empty() {
        return String::new();
    }
    let rows = report.tools.iter().map(|tool| {
        let removed = if tool.removed { " (removed)" } else { "" };
        [
            format!("{}{removed}", tool.tool),
            tool.server.clone(),
            tool.call_count.to_string(),
            format!("{:.0} %", tool.success_rate * 100.0),
            format!("{:.0} %", tool.recent_success_rate * 100.0),
            format!("{:.0} ms", tool.avg_latency_ms),
            tool.last_called_at.clone(),
            tool.last_error.clone().unwrap_or_default(),
        ]
    });
    output::table(["TOOL", "BACKEND", "CALLS", "OK", "RECENT", "LATENCY", "LAST CALL", "LAST ERROR"], rows)
}
