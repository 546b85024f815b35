//! `vmcp validate`: checks a configuration file without using it.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use vmcp_config::Problem;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes::counted;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use crate::config_file::source::{self, LoadError};

/// Check a configuration file: every mistake with its line, its path and the remedy
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 0 when the file can be served, with 1 when it cannot. Warnings do not count."
)]
pub(in crate::cli) struct Arguments {
    /// File to check [default: as with --config]
    file: Option<PathBuf>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { file, output: format } = arguments;
    let path = file.map_or_else(|| global.config_or_running(), Ok)?;
    let source = path.display().to_string();
    let (problems, warnings, backends) = match source::load(&path, &global.reference_lookup()) {
        Ok((_, loaded)) => (Vec::new(), loaded.warnings, loaded.config.backends.len()),
        Err(LoadError::Invalid(problems)) => (problems.list, Vec::new(), 0),
        Err(error @ LoadError::Unreadable { .. }) => return Err(error.into()),
    };
    let valid = problems.is_empty();
    let report = json!({ "file": source, "valid": valid, "problems": problems, "warnings": warnings });
    output::print(format, &report, || {
        let lines = |prefix: &str, list: &[Problem]| {
            list.iter().map(|problem| format!("{prefix}{}", problem.render(&source))).collect::<Vec<_>>()
        };
        let mut text = [lines("", &problems), lines("warning: ", &warnings)].concat();
        text.push(match problems.len() {
            0 => format!(
                "{source} is valid: {}, {}",
                counted(backends, "backend"),
                counted(warnings.len(), "warning")
            ),
            1 => format!("{source} has one mistake"),
            count => format!("{source} has {count} mistakes"),
        });
        text.join("\n")
    })?;
    Ok(if valid { Exit::Done } else { Exit::Failed })
}
