//! `vmcp authz`: asks the policies of the configuration file.

mod explain;
mod test;

use clap::{Args, Subcommand};

use super::console::failure::{CommandFailure, Exit};
use super::options::GlobalOptions;

/// Ask the policies of the configuration file who may call what
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: AuthzCommand,
}

#[derive(Debug, Subcommand)]
enum AuthzCommand {
    Explain(explain::Arguments),
    Test(test::Arguments),
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    match arguments.command {
        AuthzCommand::Explain(arguments) => explain::run(arguments, global),
        AuthzCommand::Test(arguments) => test::run(&arguments, global),
    }
}
