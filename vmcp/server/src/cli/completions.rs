//! `vmcp completions`: prints the script by which a shell asks vmcp for completions; names of tools and
//! backends among them.

pub(super) mod candidates;

use std::io;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output;

/// Variable by which the script tells vmcp to answer with completions.
const VARIABLE: &str = "COMPLETE";

/// Print a completion script for a shell
///
/// The script asks vmcp at each completion, so that it knows your backends, their tools as they were listed
/// last, and profiles.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo 'source <(vmcp completions bash)' >> ~/.bashrc
  echo 'source <(vmcp completions zsh)' >> ~/.zshrc
  vmcp completions fish > ~/.config/fish/completions/vmcp.fish")]
pub(super) struct Arguments {
    /// Shell to write for
    shell: Shell,
}

/// Shells that can complete.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// Answers a shell that asks for completions, and ends the process; returns if none asks.
pub(super) fn answer_shell<C: CommandFactory>() {
    CompleteEnv::with_factory(C::command).var(VARIABLE).complete();
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<Exit, CommandFailure> {
    let name = match arguments.shell {
        Shell::Bash => "bash",
        Shell::Elvish => "elvish",
        Shell::Fish => "fish",
        Shell::Powershell => "powershell",
        Shell::Zsh => "zsh",
    };
    let shells = Shells::builtins();
    let shell = shells.completer(name).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "vmcp", "vmcp", "vmcp", &mut script)?;
    output::result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
