//! A worker for this crate's tests, as `vmcp exec-worker` is for the server.

use std::process::ExitCode;

use vmcp_script::ResourceBounds;
use vmcp_script_worker::worker;

fn main() -> ExitCode {
    let bound = |name: &str| {
        let value = std::env::args().find_map(|argument| argument.strip_prefix(name)?.parse().ok());
        value.unwrap_or_default()
    };
    worker::main(ResourceBounds { memory: bound("--memory="), cpu_seconds: bound("--cpu-seconds=") })
}
