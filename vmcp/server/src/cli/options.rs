//! Options that every command takes, and the configuration file they lead to.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use vmcp_config::{Config, Loaded, Problem};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::running_server::RunningServer;
use crate::cli::running_server::serve_options::ServeOptions;
use crate::config_file::reference_lookup::ReferenceLookup;
use crate::config_file::secret_store;
use crate::config_file::source::{self, ConfigInputs, LoadError};
use vmcp_engine::access::outgoing;
use vmcp_engine::folders;
use vmcp_engine::telemetry::{self, Telemetry, logs};

/// Name of the configuration file unless another is given.
pub(super) const DEFAULT_FILE_NAME: &str = "vmcp.yaml";

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct GlobalOptions {
    /// Configuration file [default: ./vmcp.yaml, then ~/.config/vmcp/vmcp.yaml]
    #[arg(short, long, global = true, value_name = "FILE", env = "VMCP_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// File of environment variables (NAME=value lines) for `${NAME}`; repeatable. `.env` beside the
    /// configuration file is read without being named
    #[arg(long, global = true, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Log level on standard error: error, warn, info, debug, trace, or a filter like vmcp=debug [default:
    /// operational.logLevel of the configuration; for all commands but `serve` and `bridge`: error]
    #[arg(long, global = true, value_name = "LEVEL", env = "VMCP_LOG_LEVEL")]
    log_level: Option<String>,
    /// Format of log lines
    #[arg(long, global = true, value_name = "FORMAT", env = "VMCP_LOG_FORMAT", default_value = "auto")]
    log_format: LogFormat,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// One readable line per event.
    Text,
    /// One JSON object per line.
    Json,
}

/// A configuration file that was read and is valid.
pub(super) struct ConfigFile {
    /// Path of the file.
    pub(super) path: PathBuf,
    /// Text of the file and of the files it refers to.
    pub(super) source: ConfigInputs,
    /// Configuration that the file describes.
    pub(super) config: Config,
    /// Settings that probably mean something else than their author thinks.
    pub(super) warnings: Vec<Problem>,
}

impl GlobalOptions {
    /// Returns the options of a command that was given this file, or none.
    pub(super) fn of_file(config: Option<PathBuf>) -> GlobalOptions {
        GlobalOptions { config, env_file: Vec::new(), log_level: None, log_format: LogFormat::Auto }
    }

    /// Returns the path of the configuration file: the given one, else the first existing one of the usual
    /// places.
    pub(super) fn config_path(&self) -> Result<PathBuf, CommandFailure> {
        if let Some(path) = &self.config {
            return Ok(path.clone());
        }
        usual_files().into_iter().find(|path| path.is_file()).ok_or_else(no_file)
    }

    /// Returns the path of the configuration file, as [`GlobalOptions::config_path`] does; without one here,
    /// the file of the only running server.
    pub(super) fn config_or_running(&self) -> Result<PathBuf, CommandFailure> {
        self.config_path().or_else(|absent| RunningServer::only_config().ok_or(absent))
    }

    /// Returns the options that a server in the background takes over from this command.
    pub(super) fn serve_options(&self) -> Result<ServeOptions, CommandFailure> {
        let env_files = self.env_file.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
        let log_format = match self.log_format {
            LogFormat::Auto => None,
            LogFormat::Text | LogFormat::Json => self.log_format.to_possible_value(),
        };
        let log_format = log_format.map(|value| value.get_name().to_owned());
        let log_level = self.log_level.clone();
        Ok(ServeOptions { env_files, log_level, log_format, ..ServeOptions::default() })
    }

    /// Reads and validates the configuration file.
    pub(super) fn load(&self) -> Result<ConfigFile, CommandFailure> {
        self.load_file(&self.config_path()?)
    }

    /// Reads and validates a configuration file.
    pub(super) fn load_file(&self, path: &Path) -> Result<ConfigFile, CommandFailure> {
        let (source, Loaded { config, warnings }) =
            source::load(path, &self.reference_lookup()).map_err(|error| not_loaded(path, &error))?;
        Ok(ConfigFile { path: path.to_owned(), source, config, warnings })
    }

    /// Returns the sources of the values to which the configuration file refers.
    pub(super) fn reference_lookup(&self) -> ReferenceLookup {
        ReferenceLookup::new(environment)
            .with_env_files(self.env_file.clone())
            .with_secrets(secret_store::path())
            .with_logins(outgoing::logins_folder())
    }

    /// Reads the configuration file; `None` if none was named and none exists.
    pub(super) fn load_if_any(&self) -> Result<Option<ConfigFile>, CommandFailure> {
        if self.config.is_none() && self.config_path().is_err() { Ok(None) } else { self.load().map(Some) }
    }

    /// Reads the configuration file as [`GlobalOptions::load_if_any`] does; without one here, the file of the
    /// only running server.
    pub(super) fn load_or_running(&self) -> Result<Option<ConfigFile>, CommandFailure> {
        let Ok(path) = self.config_or_running() else { return Ok(None) };
        self.load_file(&path).map(Some)
    }

    /// Starts the logs of a server, and the exporters of its traces and log lines.
    pub(super) fn start_telemetry(&self, config: &Config) -> Result<Telemetry, CommandFailure> {
        let logs = self.logs(config.operational.log_level.as_str(), logs::LogStyle::Auto);
        Ok(telemetry::init(&logs, &config.telemetry)?)
    }

    /// Starts the logs of a command that a person runs: errors only, as text, unless `--log-level` asks for
    /// more.
    pub(super) fn start_logs(&self) -> Result<(), CommandFailure> {
        // Failures of the MCP client are reported by the command itself.
        telemetry::init_command(&self.logs("error,rmcp=off", logs::LogStyle::Text))?;
        Ok(())
    }

    /// Returns true if a person reads the log as it is written.
    pub(super) fn person_reads_logs(&self) -> bool {
        match self.log_format {
            LogFormat::Auto => notes::is_terminal(),
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

/// Returns the failure for a missing file, with the places that were searched.
pub(super) fn no_file() -> CommandFailure {
    let usual: Vec<_> = usual_files().iter().map(|path| path.display().to_string()).collect();
    CommandFailure::new(format!("there is no configuration file (looked for {})", usual.join(" and ")))
        .remedy("`vmcp init` writes one; or name one with --config")
}

/// Returns the value of an environment variable, for references in the configuration.
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

/// Parses an address to listen at.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:8080".to_owned())
}

fn usual_files() -> Vec<PathBuf> {
    let user = folders::config_dir().map(|folder| folder.join(DEFAULT_FILE_NAME));
    std::iter::once(PathBuf::from(DEFAULT_FILE_NAME)).chain(user).collect()
}

/// Returns the name of a profile of the configuration.
pub(super) fn profile_of(config: &Config, name: &str) -> Result<Arc<str>, CommandFailure> {
    config.profiles.get_key_value(name).map(|(name, _)| Arc::clone(name)).ok_or_else(|| {
        let known: Vec<_> = config.profiles.keys().map(AsRef::as_ref).collect();
        let remedy = if known.is_empty() {
            "add it to `profiles` of the configuration file".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        CommandFailure::new(format!("no profile is called `{name}`")).exit(Exit::NothingFound).remedy(remedy)
    })
}
