//! How commands end.

use std::io;
use std::process::ExitCode;

use super::notes;

/// Exit codes; scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Exit {
    /// Done.
    Done = 0,
    /// It failed, something is broken, or the tool reported an error.
    Failed = 1,
    /// The arguments make no sense; clap uses the same.
    Usage = 2,
    /// There is no such tool or backend, or nothing was found.
    NothingFound = 3,
    /// A server or backend cannot be reached.
    Unreachable = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(in crate::cli) struct CommandFailure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
    broken_pipe: bool,
}

impl CommandFailure {
    /// Failed, for this reason.
    pub(in crate::cli) fn new(message: impl Into<String>) -> CommandFailure {
        CommandFailure { exit: Exit::Failed, message: message.into(), remedy: None, broken_pipe: false }
    }

    /// Standard input or output failed.
    pub(in crate::cli) fn of_pipe(what: &str, error: &io::Error) -> CommandFailure {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        CommandFailure { broken_pipe, ..CommandFailure::new(format!("{what}: {error}")) }
    }

    /// Why.
    pub(in crate::cli) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(in crate::cli) fn remedy(mut self, remedy: impl Into<String>) -> CommandFailure {
        self.remedy = Some(remedy.into());
        self
    }

    /// Ends with this code.
    pub(in crate::cli) fn exit(mut self, exit: Exit) -> CommandFailure {
        self.exit = exit;
        self
    }

    /// Says why on standard error. Whoever closed the pipe that we write to has seen enough: that is no failure.
    pub(in crate::cli) fn report(self) -> ExitCode {
        let CommandFailure { exit, message, remedy, broken_pipe } = self;
        if broken_pipe {
            return Exit::Done.into();
        }
        notes::note(&format!("error: {message}"));
        if let Some(remedy) = remedy {
            notes::note(&format!("  try: {remedy}"));
        }
        exit.into()
    }
}

impl<E: std::error::Error> From<E> for CommandFailure {
    fn from(error: E) -> CommandFailure {
        CommandFailure::new(error.to_string())
    }
}
