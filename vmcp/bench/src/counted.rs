//! Processes that count their allocations: what the binary `vmcp-counted` runs, and the client that reads the
//! counts.

use std::env;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, Result};

/// Environment variable with the address at which a counting process serves its counts.
const ADDRESS_VARIABLE: &str = "VMCP_BENCH_COUNTS";

/// Allocations of a process since its start.
#[derive(Debug, Clone, Copy)]
pub struct AllocationCounts {
    /// Allocated blocks, including blocks that grew.
    pub allocations: u64,
    /// Bytes allocated.
    pub bytes: u64,
}

/// Runs vmcp's command line or, if the first argument is `--role`, the `benchmark` in a role, and serves what
/// `count` returns.
pub fn main(count: fn() -> AllocationCounts, benchmark: fn() -> Result<()>) -> ExitCode {
    let serving = env::var(ADDRESS_VARIABLE).map(|address| serve_counts(&address, count));
    let is_role = env::args().nth(1).is_some_and(|first| first == "--role");
    match serving.unwrap_or(Ok(())).and_then(|()| if is_role { benchmark() } else { Ok(()) }) {
        Ok(()) if is_role => ExitCode::SUCCESS,
        Ok(()) => vmcp::cli::main(),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Answers each byte that a reader sends with the counts, any number of readers at a time.
fn serve_counts(address: &str, count: fn() -> AllocationCounts) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                while stream.read_exact(&mut [0]).is_ok() {
                    let AllocationCounts { allocations, bytes } = count();
                    // A reader that has gone asks no more.
                    _ = stream.write_all(&allocations.to_be_bytes());
                    _ = stream.write_all(&bytes.to_be_bytes());
                }
            });
        }
    });
    Ok(())
}

/// A counting process, seen from the benchmark.
pub(crate) struct AllocationReader(TcpStream);

impl AllocationReader {
    /// Returns the setting of the environment that makes a process serve its counts at `address`.
    pub(crate) fn setting(address: SocketAddr) -> (&'static str, String) {
        (ADDRESS_VARIABLE, address.to_string())
    }

    /// Connects to a process that has started.
    pub(crate) fn connect(address: SocketAddr) -> Result<AllocationReader> {
        let stream = TcpStream::connect(address).context("a process that counts its allocations")?;
        stream.set_nodelay(true)?;
        Ok(AllocationReader(stream))
    }

    /// Returns the counts since the process started.
    pub(crate) fn read(&mut self) -> Result<AllocationCounts> {
        let [mut allocations, mut bytes] = [[0; 8]; 2];
        self.0.write_all(&[0])?;
        self.0.read_exact(&mut allocations)?;
        self.0.read_exact(&mut bytes)?;
        Ok(AllocationCounts {
            allocations: u64::from_be_bytes(allocations),
            bytes: u64::from_be_bytes(bytes),
        })
    }
}
