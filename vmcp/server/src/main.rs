//! The `vmcp` binary: everything is in [`vmcp::cli`].

use std::process::ExitCode;

/// A request allocates some hundred times; this allocator makes that a fifth of what the system's takes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    vmcp::cli::main()
}
