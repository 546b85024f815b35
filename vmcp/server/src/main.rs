//! The `vmcp` binary; all of it is in [`vmcp::cli`].

use std::process::ExitCode;

/// A request allocates some hundred times; mimalloc takes a fifth of the time of the system's allocator.
///
/// Its feature `no_thp` keeps huge pages out of the heap: an idle process touched 30 MiB of them for 13 MiB
/// of data.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    vmcp::cli::main()
}
