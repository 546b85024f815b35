//! The child process of a script: confines itself, says that it is ready, runs one script and ends.

mod confine;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use crate::engine::monty::MontyEngine;
use crate::engine::{Engine, PausedScript, Step};
use vmcp_script::protocol::{self, Confinement, Failure, Finished, FromWorker, StartScript, ToWorker};

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
    let mut step = match protocol::read_blocking(input)? {
        ToWorker::Start(script) => match mistakes(engine, &script, input, output)? {
            Some(failure) => Step::Finished(Finished::failed(failure)),
            None => engine.start(*script),
        },
        ToWorker::Resume(script) => match engine.resume(*script) {
            Ok(script) => {
                protocol::write_blocking(output, &FromWorker::Resumed)?;
                match answered(script, input)? {
                    Answered::Step(step) => step,
                    Answered::Suspended(frame) => return protocol::write_blocking(output, &frame),
                }
            }
            Err(failure) => Step::Finished(Finished::failed(failure)),
        },
        _ => return Err(unexpected()),
    };
    loop {
        match step {
            Step::Finished(finished) => {
                return protocol::write_blocking(output, &FromWorker::Finished(finished));
            }
            Step::Calls(calls, script) => {
                protocol::write_blocking(output, &FromWorker::Calls(calls))?;
                step = match answered(script, input)? {
                    Answered::Step(step) => step,
                    Answered::Suspended(frame) => return protocol::write_blocking(output, &frame),
                };
            }
        }
    }
}

/// Asks the server about the tools that the script names; returns the failure of a script that names a
/// tool out of its caller's reach, or that calls a tool with constants that do not fit.
fn mistakes(
    engine: &dyn Engine,
    script: &StartScript,
    input: &mut impl Read,
    output: &mut impl Write,
) -> io::Result<Option<Failure>> {
    let uses = engine.uses(script);
    if uses.is_empty() {
        return Ok(None);
    }
    let asked: Vec<(u32, bool)> = uses.iter().map(|tool| (tool.line, tool.arguments.is_some())).collect();
    protocol::write_blocking(output, &FromWorker::Uses(uses))?;
    let ToWorker::Checked(checked) = protocol::read_blocking(input)? else { return Err(unexpected()) };
    let wrong_among = |calls: bool| -> Vec<(u32, &str)> {
        let entries = asked.iter().zip(&checked).filter(|((_, is_call), _)| *is_call == calls);
        entries.filter_map(|((line, _), mistake)| Some((*line, mistake.as_deref()?))).collect()
    };
    let (kind, wrong) = match wrong_among(false) {
        all_known if all_known.is_empty() => ("ValueError", wrong_among(true)),
        unknown => ("LookupError", unknown),
    };
    let Some((first, _)) = wrong.first() else { return Ok(None) };
    let line = Some(*first);
    let texts: Vec<String> = match wrong.as_slice() {
        [(_, mistake)] => vec![(*mistake).to_owned()],
        several => several.iter().map(|(line, mistake)| format!("line {line}: {mistake}")).collect(),
    };
    let error = format!("{} (nothing has been called)", texts.join("; "));
    Ok(Some(Failure { line, ..Failure::new(kind, error) }))
}

/// The way of a script after the server's answer to its calls.
enum Answered {
    Step(Step),
    /// It leaves this worker with this frame.
    Suspended(FromWorker),
}

/// Waits for the ends of the calls, or for the demand to suspend the script.
fn answered(script: Box<dyn PausedScript>, input: &mut impl Read) -> io::Result<Answered> {
    match protocol::read_blocking(input)? {
        ToWorker::Results(ends) => Ok(Answered::Step(script.resume(ends))),
        ToWorker::Suspend => Ok(Answered::Suspended(FromWorker::Suspended(script.suspend().map(Box::new)))),
        ToWorker::Start(_) | ToWorker::Resume(_) | ToWorker::Checked(_) => Err(unexpected()),
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an unexpected frame")
}
