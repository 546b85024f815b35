//! The child process of a script: confines itself, says that it is ready, runs one script and ends.

mod confine;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use crate::engine::{Engine, MontyEngine, Step};
use vmcp_script::protocol::{self, Confinement, FromWorker, ToWorker};

use vmcp_script::ResourceBounds;

/// Runs a worker on standard input and output. To be called before the process has a second thread: the
/// filters hold for the calling thread and its children.
#[expect(clippy::print_stderr, reason = "the server logs it as the end of its worker")]
pub fn main(bounds: ResourceBounds) -> ExitCode {
    let confined = match confine::confine(bounds) {
        Ok(confined) => confined,
        Err(error) => {
            eprintln!("the worker cannot be confined: {error}");
            return ExitCode::FAILURE;
        }
    };
    match serve(&MontyEngine, confined, &mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one script that comes by `input`.
pub fn serve(
    engine: &dyn Engine,
    confined: Confinement,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<()> {
    protocol::write_blocking(output, &FromWorker::Ready(confined))?;
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "an unexpected frame");
    let ToWorker::Start(script) = protocol::read_blocking(input)? else { return Err(unexpected()) };
    let mut step = engine.start(*script);
    loop {
        match step {
            Step::Finished(finished) => {
                return protocol::write_blocking(output, &FromWorker::Finished(finished));
            }
            Step::Calls(calls, script) => {
                protocol::write_blocking(output, &FromWorker::Calls(calls))?;
                let ToWorker::Results(ends) = protocol::read_blocking(input)? else {
                    return Err(unexpected());
                };
                step = script.resume(ends);
            }
        }
    }
}
