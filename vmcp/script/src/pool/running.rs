//! One script in its worker: frames, calls, and the deadline.

use std::io;
use std::pin::pin;
use std::time::Instant;

use futures::stream::{self, StreamExt as _};
use tokio::time::timeout;

use super::worker::Worker;
use super::{Ran, ToolHost, death, died};
use crate::limits::{ResourceBounds, ScriptLimits};
use crate::protocol::{CallEnd, Failure, Finished, FromWorker, MAX_FRAME, StartScript, ToWorker};

/// Bytes of all results of one `parallel`, which go to the worker in one frame. One call alone is bounded by
/// its host.
const MAX_RESULTS: usize = MAX_FRAME / 2;

/// Runs a script to its end, or to its deadline, at which the worker is killed.
pub(super) async fn run(
    mut worker: Worker,
    script: StartScript,
    bounds: ResourceBounds,
    host: &impl ToolHost,
) -> Ran {
    let begun = Instant::now();
    let limits = script.limits.clone();
    let mut calls = 0;
    let ran = timeout(limits.timeout, converse(&mut worker, script, &limits, host, &mut calls)).await;
    let failed = |failure| Finished { end: Err(failure), output: String::new() };
    let finished = match ran {
        Ok(Ok(finished)) => finished,
        Ok(Err(_)) if bounds.cpu_seconds <= begun.elapsed().as_secs() => failed(Failure::timed_out(&limits)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            failed(died(&format!("failed: {error}")))
        }
        Ok(Err(_)) => failed(death::explain(worker).await),
        // Dropped here, the worker is killed.
        Err(_) => failed(Failure::timed_out(&limits)),
    };
    Ran { finished, calls, took: begun.elapsed() }
}

async fn converse(
    worker: &mut Worker,
    script: StartScript,
    limits: &ScriptLimits,
    host: &impl ToolHost,
    made: &mut usize,
) -> io::Result<Finished> {
    worker.write(&ToWorker::Start(Box::new(script))).await?;
    loop {
        match worker.read().await? {
            FromWorker::Finished(finished) => return Ok(finished),
            FromWorker::Ready(_) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected frame"));
            }
            FromWorker::Calls(calls) => {
                *made += calls.len();
                // The worker counts, too; it is not trusted to.
                if *made > limits.calls {
                    let error = format!("the script made more than {} calls", limits.calls);
                    let failure = Failure::new("CallLimitError", error).with_limit(limits.calls);
                    return Ok(Finished { end: Err(failure), output: String::new() });
                }
                let several = calls.len() > 1;
                let calls = calls.into_iter().map(|call| host.call(call));
                let mut results = pin!(stream::iter(calls).buffered(limits.parallel.max(1)));
                let (mut ends, mut bytes) = (Vec::new(), 0);
                while let Some(end) = results.next().await {
                    bytes = if several { size(&end).saturating_add(bytes) } else { bytes };
                    if bytes > MAX_RESULTS {
                        let error = format!(
                            "the results of one `parallel` have more than {MAX_RESULTS} bytes; make fewer calls at a time"
                        );
                        let failure = Failure::new("ResultLimitError", error).with_limit(MAX_RESULTS);
                        return Ok(Finished { end: Err(failure), output: String::new() });
                    }
                    ends.push(end);
                }
                worker.write(&ToWorker::Results(ends)).await?;
            }
        }
    }
}

/// Returns the bytes of a result as JSON.
fn size(end: &CallEnd) -> usize {
    serde_json::to_vec(end).map_or(usize::MAX, |json| json.len())
}
