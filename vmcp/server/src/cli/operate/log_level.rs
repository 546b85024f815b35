//! `vmcp log-level`: shows or changes the level of the running server's log lines.

use std::time::Duration;

use clap::Args;
use url::form_urlencoded;

use crate::cli::connection::{self, ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use vmcp_engine::telemetry::logs::levels::LevelReport;

/// Show the level of log lines of the running server, or change it while the server runs
#[derive(Debug, Args)]
#[command(after_help = "\
Modules are those of JSON lines (`target`): vmcp_backend for connections to servers, vmcp_edge for
clients, vmcp_route for calls, vmcp_access for sign-in and policies, vmcp_engine for the catalog and
search. Without --module, the level is that of all of them, in place of their levels so far. Libraries
such as hyper may log headers at debug and trace. All changes end together, at the time of the latest --for.

Examples:
  vmcp log-level
  vmcp log-level debug --module vmcp_backend --for 10m
  vmcp log-level --reset")]
pub(in crate::cli) struct Arguments {
    /// Level: off, error, warn, info, debug or trace
    level: Option<String>,
    /// Change the level of this module alone [default: all of vmcp's own]
    #[arg(short, long, value_name = "NAME", requires = "level")]
    module: Option<String>,
    /// Time after which all changes end [default: as before, or with the process]
    #[arg(long = "for", value_name = "DURATION", requires = "level", value_parser = duration)]
    life: Option<Duration>,
    /// Go back to the levels of the start
    #[arg(long, conflicts_with = "level")]
    reset: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let change = query(arguments);
    connection::with_server(global, &arguments.server_options, async |connection| {
        let levels: LevelReport = match change {
            Some(query) => connection.put(&format!("admin/log-level?{query}")).await?,
            None => connection.lookup("admin/log-level").await?,
        };
        output::print(arguments.output, &levels, || human_text(&levels))?;
        Ok(Exit::Done)
    })
}

/// Returns the query of a change; `None` if nothing is to change.
fn query(arguments: &Arguments) -> Option<String> {
    let Arguments { level, module, life, reset, .. } = arguments;
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    if *reset {
        return Some(pairs.append_pair("reset", "true").finish());
    }
    pairs.append_pair("level", level.as_ref()?);
    pairs.extend_pairs(module.iter().map(|module| ("module", module)));
    pairs.extend_pairs(life.iter().map(|life| ("for", humantime::format_duration(*life).to_string())));
    Some(pairs.finish())
}

fn human_text(levels: &LevelReport) -> String {
    let LevelReport { start, changes, until } = levels;
    let mut lines = vec![format!("at the start  {start}")];
    lines.extend(changes.iter().map(|(module, level)| format!("changed       {module}={level}")));
    lines.extend(until.iter().map(|until| format!("until         {until}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_change_names_level_module_and_time() {
        let of = |words: &str| query(&Line::parse_from(words.split(' ')).arguments);
        assert_eq!(of("x"), None);
        assert_eq!(of("x --reset").as_deref(), Some("reset=true"));
        let expected = "level=debug&module=vmcp_backend&for=10m";
        assert_eq!(of("x debug --module vmcp_backend --for 10m").as_deref(), Some(expected));
        assert!(Line::try_parse_from(["x", "--module", "a"]).is_err(), "a module without a level");
    }
}
