//! `vmcp authz`: asks the policies of the configuration file.

pub(in crate::cli) mod check;
mod explain;
mod test;

use clap::{Args, Subcommand};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::options::GlobalOptions;

/// Ask the policies of the configuration file who may call what
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    command: AuthzCommand,
}

#[derive(Debug, Subcommand)]
enum AuthzCommand {
    Explain(explain::Arguments),
    Test(test::Arguments),
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    match arguments.command {
        AuthzCommand::Explain(arguments) => explain::run(arguments, global),
        AuthzCommand::Test(arguments) => test::run(&arguments, global),
    }
}
