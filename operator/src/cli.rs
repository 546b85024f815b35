//! The command line: `vmcp-operator [run]` runs the operator, `vmcp-operator ready` asks a running one,
//! `vmcp-operator crds` prints the resource definitions.

mod endpoints;
mod metrics_token;
mod options;
mod ready;
mod run;
mod run_error;
mod traces;

use std::io::Write as _;

use clap::{Parser, Subcommand};
use vmcp_crds::ApiGroup;

use self::options::Options;
pub use self::run_error::RunError;

/// Turn VirtualMCPServer, MCPServer and EmbeddingServer resources into running pods, and keep them so.
///
/// Every option can be given as an environment variable. Several replicas may run; one of them leads.
#[derive(Debug, Parser)]
#[command(name = "vmcp-operator", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator (the default).
    Run,
    /// Ask a running operator until it is ready, for at most a minute.
    Ready {
        /// Its `/readyz`.
        #[arg(long, default_value = "http://127.0.0.1:8081/readyz")]
        url: String,
    },
    /// Print the CustomResourceDefinitions, for `kubectl apply --server-side -f -`. With
    /// `--toolhive-group true`, those of ToolHive's own group.
    Crds,
}

impl Cli {
    /// Executes the subcommand.
    pub async fn execute(self) -> Result<(), RunError> {
        match self.command {
            Some(Command::Crds) => {
                let group = if self.options.toolhive_group { ApiGroup::ToolHive } else { ApiGroup::Vmcp };
                print_definitions(group);
                Ok(())
            }
            Some(Command::Ready { url }) => ready::ready(&url).await,
            None | Some(Command::Run) => run::run(self.options).await,
        }
    }
}

fn print_definitions(group: ApiGroup) {
    let mut out = std::io::stdout().lock();
    for definition in vmcp_crds::definitions::in_group(group) {
        let (_, yaml) = vmcp_crds::definitions::yaml_file(&definition);
        // The reader may close the pipe, as `head` does.
        if write!(out, "---\n{yaml}").is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        let arguments = std::iter::once("vmcp-operator").chain(arguments.iter().copied());
        Cli::try_parse_from(arguments).expect("a command line").options
    }

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn the_image_of_vmcp_is_never_guessed() {
        assert_eq!(options(&["--vmcp-image", ""]).build_settings(), None);
        let settings = options(&["--vmcp-image", "vmcp:1"]).build_settings().expect("an image");
        assert_eq!((settings.vmcp_image.as_str(), settings.bridge_image.as_str()), ("vmcp:1", "vmcp:1"));
        let bridge = ["--vmcp-image", "vmcp:1", "--bridge-image", "bridge:2"];
        assert_eq!(
            options(&bridge).build_settings().map(|settings| settings.bridge_image).as_deref(),
            Some("bridge:2")
        );
    }

    #[test]
    fn running_without_an_image_of_vmcp_is_an_error_that_names_the_option() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let error = runtime.block_on(run::run(options(&["--vmcp-image", ""]))).expect_err("no image");
        assert!(error.to_string().contains("--vmcp-image or VMCP_IMAGE"), "{error}");
    }
}
