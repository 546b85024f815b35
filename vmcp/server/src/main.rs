//! The `vmcp` binary; all of it is in [`vmcp::cli`].

use std::process::ExitCode;

/// A request allocates some hundred times; mimalloc takes a fifth of the time of the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    vmcp::cli::main()
}
