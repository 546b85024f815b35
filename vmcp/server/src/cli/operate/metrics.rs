//! `vmcp metrics`: calls, success rate and latency of each tool, by day, and single calls, of the running
//! server or from its database.

use clap::Args;
use clap_complete::ArgValueCandidates;
use url::form_urlencoded;
use vmcp_store::{StateStore, StoreError};

use crate::cli::completions::candidates;
use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use vmcp_engine::folders;
use vmcp_engine::telemetry::tool_metrics::book::MetricsBook;
use vmcp_engine::telemetry::tool_metrics::history::{CallsReport, DaysReport, HistoryQuery};
use vmcp_engine::telemetry::tool_metrics::report::{MetricsOrder, MetricsQuery, MetricsReport, report};

/// Show calls, success rate and latency of each tool
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp metrics
  vmcp metrics --failing
  vmcp metrics --backend github --tool create_issue -o json
  vmcp metrics --days 7                         calls of each tool, and searches, by day: kept for good
  vmcp metrics --calls --backend github         single calls of the last days, the newest first
  vmcp metrics --backend github --reset

Single calls are kept for optimizer.metricsRetentionDays (7). Days and calls are those of the
replica that answers.

Without a running server, the database of the configuration is read.")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(in crate::cli) struct Arguments {
    /// Only tools of this backend
    #[arg(short, long, value_name = "NAME", add = ArgValueCandidates::new(candidates::backends))]
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
    /// Calls of each tool by day (UTC): this many days, today included
    #[arg(
        long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "30",
        value_parser = clap::value_parser!(u32).range(1..=3650), conflicts_with_all = ["top", "failing", "calls"]
    )]
    days: Option<u32>,
    /// Single calls, the newest first
    #[arg(long, conflicts_with_all = ["top", "failing"])]
    calls: bool,
    /// Most entries to show: with --top or --failing 10 tools, with --days or --calls 100 lines
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
    /// Fewest calls of a tool, with --top
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    min_calls: u64,
    /// Success rate below which a tool is failing, with --failing
    #[arg(long, value_name = "RATE", default_value_t = 0.5)]
    threshold: f64,
    /// Forget the metrics of the chosen tools
    #[arg(long, conflicts_with_all = ["top", "failing", "days", "calls"])]
    reset: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

impl Arguments {
    /// Returns the choice of days or of single calls, if these are wanted.
    fn history(&self) -> Option<HistoryQuery> {
        (self.days.is_some() || self.calls).then(|| HistoryQuery {
            server: self.backend.clone(),
            tool: self.tool.clone(),
            // The log has no more calls than the days of its retention.
            days: self.days.or(Some(365)),
            limit: self.limit,
        })
    }

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
            limit: self.limit,
            min_calls: Some(self.min_calls),
            threshold: Some(self.threshold),
            scope: None,
        }
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    if let Some(wanted) = arguments.history() {
        return show_history(arguments, &wanted, global);
    }
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

/// Shows days or single calls.
fn show_history(
    arguments: &Arguments,
    wanted: &HistoryQuery,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    wanted.check().map_err(CommandFailure::new)?;
    connection::with_server_if_any(global, &arguments.server_options, async |connection| {
        let query = history_query(wanted);
        let failed = |error: StoreError| CommandFailure::new(error.to_string());
        let is_empty = if arguments.calls {
            let report: CallsReport = match connection {
                Some(server) => server.admin(&format!("admin/tool-metrics/calls?{query}")).await?,
                None => wanted.calls(&database(global)?).map_err(failed)?,
            };
            output::print(arguments.output, &report, || calls_table(&report))?;
            report.calls.is_empty()
        } else {
            let report: DaysReport = match connection {
                Some(server) => server.admin(&format!("admin/tool-metrics/days?{query}")).await?,
                None => wanted.days(&database(global)?).map_err(failed)?,
            };
            let tables = || {
                let tables = [days_table(&report), searches_table(&report)];
                tables.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n\n")
            };
            output::print(arguments.output, &report, tables)?;
            report.days.is_empty() && report.searches.is_empty()
        };
        if is_empty {
            notes::note("no such call was counted");
            return Ok(Exit::NothingFound);
        }
        Ok(Exit::Done)
    })
}

/// Writes the query of a URL for days or single calls.
fn history_query(wanted: &HistoryQuery) -> String {
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    let texts = [("server", &wanted.server), ("tool", &wanted.tool)];
    pairs.extend_pairs(texts.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
    pairs.extend_pairs(wanted.days.map(|days| ("days", days.to_string())));
    pairs.extend_pairs(wanted.limit.map(|limit| ("limit", limit.to_string())));
    pairs.finish()
}

fn days_table(report: &DaysReport) -> String {
    if report.days.is_empty() {
        return String::new();
    }
    let rows = report.days.iter().map(|day| {
        [
            day.day.clone(),
            day.tool.clone(),
            day.server.clone(),
            day.call_count.to_string(),
            day.failure_count.to_string(),
            format!("{:.0} ms", day.avg_latency_ms),
        ]
    });
    output::table(["DAY", "TOOL", "BACKEND", "CALLS", "FAILED", "LATENCY"], rows)
}

fn searches_table(report: &DaysReport) -> String {
    if report.searches.is_empty() {
        return String::new();
    }
    let rows = report.searches.iter().map(|of| {
        let counts = [of.searches, of.without_result, of.without_call, of.tokens_saved];
        let [searches, without_result, without_call, saved] = counts.map(|count| count.to_string());
        [of.day.clone(), searches, without_result, without_call, saved]
    });
    output::table(["DAY", "SEARCHES", "NO RESULT", "NO CALL", "TOKENS SAVED"], rows)
}

fn calls_table(report: &CallsReport) -> String {
    if report.calls.is_empty() {
        return String::new();
    }
    let rows = report.calls.iter().map(|call| {
        let latency = format!("{:.0} ms", call.latency_ms);
        [call.at.clone(), call.tool.clone(), call.server.clone(), call.outcome.clone(), latency]
    });
    output::table(["ENDED", "TOOL", "BACKEND", "OUTCOME", "LATENCY"], rows)
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
    let dir = folders::state_dir(&global.load()?.config);
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
