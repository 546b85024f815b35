//! The `vmcp` binary: everything is in [`vmcp::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    vmcp::cli::main()
}
