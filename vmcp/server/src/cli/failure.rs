//! How commands end.

use std::io;
use std::process::ExitCode;

use super::output;

/// Exit codes; scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
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
pub(super) struct Failure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
    broken_pipe: bool,
}

impl Failure {
    /// Failed, for this reason.
    pub(super) fn new(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, message: message.into(), remedy: None, broken_pipe: false }
    }

    /// Standard input or output failed.
    pub(super) fn of_pipe(what: &str, error: &io::Error) -> Failure {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { broken_pipe, ..Failure::new(format!("{what}: {error}")) }
    }

    /// Why.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Failure {
        self.remedy = Some(remedy.into());
        self
    }

    /// Ends with this code.
    pub(super) fn exit(mut self, exit: Exit) -> Failure {
        self.exit = exit;
        self
    }

    /// Says why on standard error. Whoever closed the pipe that we write to has seen enough: that is no failure.
    pub(super) fn report(self) -> ExitCode {
        let Failure { exit, message, remedy, broken_pipe } = self;
        if broken_pipe {
            return Exit::Done.into();
        }
        output::note(&format!("error: {message}"));
        if let Some(remedy) = remedy {
            output::note(&format!("  try: {remedy}"));
        }
        exit.into()
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error.to_string())
    }
}
