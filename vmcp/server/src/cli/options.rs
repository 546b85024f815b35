//! Options that every command has, and the configuration file that they lead to.

use std::env;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use vmcp_config::{Config, Loaded, Problem};

use super::console::failure::CommandFailure;
use super::console::notes;
use crate::config_source::{self, LoadError, Source};
use crate::telemetry::{self, Telemetry, logs, traces};

/// The file's name where nothing else is said.
pub(super) const DEFAULT_FILE_NAME: &str = "vmcp.yaml";

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct GlobalOptions {
    /// Configuration file [default: ./vmcp.yaml, then ~/.config/vmcp/vmcp.yaml]
    #[arg(short, long, global = true, value_name = "FILE", env = "VMCP_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// What is logged to standard error: error, warn, info, debug, trace, or a filter like vmcp=debug
    /// [default: operational.logLevel of the configuration; for all commands but `serve`: error]
    #[arg(long, global = true, value_name = "LEVEL", env = "VMCP_LOG_LEVEL")]
    log_level: Option<String>,
    /// How log lines look
    #[arg(long, global = true, value_name = "FORMAT", env = "VMCP_LOG_FORMAT", default_value = "auto")]
    log_format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// One readable line per event.
    Text,
    /// One JSON object per line.
    Json,
}

/// A configuration file that was read.
pub(super) struct ConfigFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it was made of.
    pub(super) source: Source,
    /// What it says.
    pub(super) config: Config,
    /// What is probably not meant.
    pub(super) warnings: Vec<Problem>,
}

impl GlobalOptions {
    /// The configuration file: the given one, else the first of the usual ones that exists.
    pub(super) fn config_path(&self) -> Result<PathBuf, CommandFailure> {
        if let Some(path) = &self.config {
            return Ok(path.clone());
        }
        usual_files().into_iter().find(|path| path.is_file()).ok_or_else(no_file)
    }

    /// Reads and validates the configuration file.
    pub(super) fn load(&self) -> Result<ConfigFile, CommandFailure> {
        let path = self.config_path()?;
        let (source, Loaded { config, warnings }) =
            config_source::load(&path, environment).map_err(|error| not_loaded(&path, &error))?;
        Ok(ConfigFile { path, source, config, warnings })
    }

    /// The same, unless there is no file and none was asked for.
    pub(super) fn load_if_any(&self) -> Result<Option<ConfigFile>, CommandFailure> {
        if self.config.is_none() && self.config_path().is_err() { Ok(None) } else { self.load().map(Some) }
    }

    /// Starts the logs of a server, and its traces.
    pub(super) fn start_telemetry(&self, config: &Config) -> Result<Telemetry, CommandFailure> {
        let logs = self.logs(config.operational.log_level.as_str(), logs::LogStyle::Auto);
        let telemetry = &config.telemetry;
        let endpoint = telemetry.endpoint.as_ref().filter(|_| telemetry.tracing_enabled);
        let headers =
            || telemetry.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()));
        let traces = endpoint.map(|endpoint| traces::TraceSettings {
            endpoint: endpoint.to_string(),
            service_name: telemetry.service_name.clone(),
            sampling_rate: f64::from(telemetry.sampling_rate),
            headers: headers().collect(),
        });
        Ok(telemetry::init(&logs, traces.as_ref())?)
    }

    /// Starts the logs of a command that people run: errors alone, as text, unless they want more.
    pub(super) fn start_logs(&self) -> Result<(), CommandFailure> {
        // What the MCP client fails at, the command itself says.
        telemetry::init(&self.logs("error,rmcp=off", logs::LogStyle::Text), None)?;
        Ok(())
    }

    /// Whether people read the log as it is written.
    pub(super) fn people_read_logs(&self) -> bool {
        match self.log_format {
            LogFormat::Auto => notes::people_read_notes(),
            LogFormat::Text => true,
            LogFormat::Json => false,
        }
    }

    fn logs(&self, level: &str, auto: logs::LogStyle) -> logs::LogSettings {
        let style = match self.log_format {
            LogFormat::Auto => auto,
            LogFormat::Text => logs::LogStyle::Text,
            LogFormat::Json => logs::LogStyle::Json,
        };
        logs::LogSettings { filter: self.log_level.clone().unwrap_or_else(|| level.to_owned()), style }
    }
}

/// No file was named, and none is where it usually is.
pub(super) fn no_file() -> CommandFailure {
    let usual: Vec<_> = usual_files().iter().map(|path| path.display().to_string()).collect();
    CommandFailure::new(format!("there is no configuration file (looked for {})", usual.join(" and ")))
        .remedy("`vmcp init` writes one; or name one with --config")
}

/// The environment, as the configuration refers to it.
pub(super) fn environment(name: &str) -> Option<String> {
    env::var(name).ok()
}

fn not_loaded(path: &Path, error: &LoadError) -> CommandFailure {
    match error {
        LoadError::Unreadable { reason, .. } if reason.kind() == std::io::ErrorKind::NotFound => {
            CommandFailure::new(format!("there is no file {}", path.display()))
                .remedy(format!("`vmcp init {}` writes one", path.display()))
        }
        LoadError::Unreadable { .. } => CommandFailure::new(error.to_string()),
        LoadError::Invalid(problems) => {
            CommandFailure::new(format!("the configuration has mistakes\n{problems}"))
        }
    }
}

fn usual_files() -> Vec<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(absolute("HOME")?.join(".config"));
    let user =
        absolute("XDG_CONFIG_HOME").or_else(home).map(|folder| folder.join("vmcp").join(DEFAULT_FILE_NAME));
    std::iter::once(PathBuf::from(DEFAULT_FILE_NAME)).chain(user).collect()
}
