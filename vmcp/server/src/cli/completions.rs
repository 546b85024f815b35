//! `vmcp completions`: prints completion scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

use super::console::failure::{CommandFailure, Exit};
use super::console::output;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp completions bash > ~/.local/share/bash-completion/completions/vmcp
  vmcp completions zsh > ~/.zfunc/_vmcp
  vmcp completions fish > ~/.config/fish/completions/vmcp.fish")]
pub(super) struct Arguments {
    /// Shell to write for
    shell: Shell,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, command: &mut Command) -> Result<Exit, CommandFailure> {
    let Arguments { shell } = arguments;
    let mut script = Vec::new();
    clap_complete::generate(*shell, command, "vmcp", &mut script);
    output::result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
