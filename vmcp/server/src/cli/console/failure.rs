//! Failures of commands, and their exit codes.

use std::io;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::notes;
use super::paint::{Tone, paint};

/// Exit code of a command; scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Exit {
    /// The command did what was asked.
    Done = 0,
    /// The command failed, a check found something broken, or the tool reported an error.
    Failed = 1,
    /// The arguments make no sense; clap uses the same code.
    Usage = 2,
    /// No tool or backend has this name, or a search found nothing.
    NothingFound = 3,
    /// A server or backend cannot be reached.
    Unreachable = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Reason why a command did not do what was asked.
#[derive(Debug)]
pub(in crate::cli) struct CommandFailure {
    exit: Exit,
    message: String,
    remedy: Option<String>,
    broken_pipe: bool,
}

impl CommandFailure {
    /// A failure with exit code 1.
    pub(in crate::cli) fn new(message: impl Into<String>) -> CommandFailure {
        CommandFailure { exit: Exit::Failed, message: message.into(), remedy: None, broken_pipe: false }
    }

    /// A failure of standard input or output. A broken pipe is remembered: it ends the command without an
    /// error.
    pub(in crate::cli) fn of_pipe(what: &str, error: &io::Error) -> CommandFailure {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        CommandFailure { broken_pipe, ..CommandFailure::new(format!("{what}: {error}")) }
    }

    /// Returns the reason, without the remedy.
    pub(in crate::cli) fn message(&self) -> &str {
        &self.message
    }

    /// Returns what to do about it.
    pub(in crate::cli) fn remedy_text(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Returns the exit code.
    pub(in crate::cli) fn exit_code(&self) -> Exit {
        self.exit
    }

    /// Returns the failure as a result for programs.
    pub(in crate::cli) fn for_programs(&self) -> Value {
        json!({ "error": self.message, "remedy": self.remedy, "exitCode": self.exit as u8 })
    }

    /// Adds what to do about it.
    pub(in crate::cli) fn remedy(mut self, remedy: impl Into<String>) -> CommandFailure {
        self.remedy = Some(remedy.into());
        self
    }

    /// Sets the exit code.
    pub(in crate::cli) fn exit(mut self, exit: Exit) -> CommandFailure {
        self.exit = exit;
        self
    }

    /// Prints the reason and the remedy on standard error, and returns the exit code. A broken pipe is no
    /// failure: a reader such as `head` has seen enough.
    pub(in crate::cli) fn report(self) -> ExitCode {
        let CommandFailure { exit, message, remedy, broken_pipe } = self;
        if broken_pipe {
            return Exit::Done.into();
        }
        notes::note(&format!("{} {message}", paint(Tone::Bad, "error:")));
        if let Some(remedy) = remedy {
            notes::note(&format!("  {} {remedy}", paint(Tone::Strong, "try:")));
        }
        exit.into()
    }
}

impl<E: std::error::Error> From<E> for CommandFailure {
    fn from(error: E) -> CommandFailure {
        CommandFailure::new(error.to_string())
    }
}
