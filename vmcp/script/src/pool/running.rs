//! One script in its worker: frames, calls, and the deadline.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use tokio::time::sleep;

use super::{Called, Interpreter, Ran, Script, ScriptEnd, ToolHost, WaitingScript, died};
use crate::limits::{ResourceBounds, ScriptLimits};
use crate::protocol::{
    CallEnd, Failure, Finished, FromWorker, HostCall, MAX_FRAME, MAX_USES, Raised, ResumeScript,
    SuspendedScript, ToWorker,
};

/// Bytes of all results of one `parallel`, which go to the worker in one frame. One call alone is bounded by
/// its host.
const MAX_RESULTS: usize = MAX_FRAME / 2;
/// Shortest time between two looks at the clock of a script, which stands still while a person is asked.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Runs a script to its end, to a question, or to its deadline, at which the interpreter is ended.
pub(super) async fn run<H: ToolHost>(
    mut worker: Box<dyn Interpreter>,
    script: Script<H::Asking>,
    bounds: ResourceBounds,
    host: &H,
) -> ScriptEnd<H::Asking> {
    let clock = Clock { begun: Instant::now(), host };
    let limits = script.limits().clone();
    let (mut made, before) = script.spent();
    let left = limits.timeout.saturating_sub(before);
    let ran = tokio::select! {
        biased;
        ran = converse(&mut *worker, script, &limits, host, &mut made) => Some(ran),
        () = clock.reaches(left) => None,
    };
    let took = before.saturating_add(clock.time());
    let failed = Finished::failed;
    let finished = match ran {
        Some(Ok(Stop::Finished(finished))) => finished,
        Some(Ok(Stop::Waits(script, calls))) => {
            return ScriptEnd::Waits(Box::new(WaitingScript { script: *script, calls, made, took }));
        }
        Some(Err(_)) if bounds.cpu_seconds <= clock.time().as_secs() => failed(Failure::timed_out(&limits)),
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            failed(died(&format!("failed: {error}")))
        }
        Some(Err(_)) => failed(worker.explain().await),
        // Dropped here, the interpreter ends.
        None => failed(Failure::timed_out(&limits)),
    };
    ScriptEnd::Ended(Ran { finished, calls: made, took })
}

/// The clock of a script: wall-clock time without the time of the user.
struct Clock<'a, H> {
    begun: Instant,
    host: &'a H,
}

impl<H: ToolHost> Clock<'_, H> {
    fn time(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.host.user_time())
    }

    async fn reaches(&self, end: Duration) {
        loop {
            let left = end.saturating_sub(self.time());
            if left.is_zero() {
                return;
            }
            sleep(left.max(CLOCK_TICK)).await;
        }
    }
}

/// Place at which a script has left its worker.
enum Stop<A> {
    Finished(Finished),
    Waits(Box<SuspendedScript>, Vec<Called<A>>),
}

/// A call that the script waits for.
enum Awaited<A> {
    New(HostCall),
    Earlier(Called<A>),
}

async fn converse<H: ToolHost>(
    worker: &mut dyn Interpreter,
    script: Script<H::Asking>,
    limits: &ScriptLimits,
    host: &H,
    made: &mut usize,
) -> io::Result<Stop<H::Asking>> {
    let failed = |failure| Ok(Stop::Finished(Finished::failed(failure)));
    let (mut earlier, mut is_checked) = (None, false);
    match script {
        Script::New(script) => worker.write(&ToWorker::Start(Box::new(script))).await?,
        Script::Waiting(waiting, limits) => {
            let WaitingScript { script, calls, .. } = waiting;
            worker.write(&ToWorker::Resume(Box::new(ResumeScript { script, limits }))).await?;
            earlier = Some(calls);
        }
    }
    loop {
        let calls = match (worker.read().await?, earlier.take()) {
            (FromWorker::Finished(finished), _) => return Ok(Stop::Finished(finished)),
            (FromWorker::Uses(uses), None) if !is_checked && uses.len() <= MAX_USES => {
                is_checked = true;
                worker.write(&ToWorker::Checked(host.check(uses).await)).await?;
                continue;
            }
            (FromWorker::Resumed, Some(calls)) => calls.into_iter().map(Awaited::Earlier).collect(),
            (FromWorker::Calls(calls), None) => {
                *made += calls.len();
                // The worker counts, too; it is not trusted to.
                if *made > limits.calls {
                    let error = format!("the script made more than {} calls", limits.calls);
                    return failed(Failure::new("CallLimitError", error).with_limit(limits.calls));
                }
                calls.into_iter().map(Awaited::New).collect()
            }
            _ => return Err(unexpected()),
        };
        let called = match make(calls, limits, host).await {
            Ok(called) => called,
            Err(failure) => return failed(failure),
        };
        let called = match worker.never_waits() {
            Some(remedy) => called.into_iter().map(|called| without_question(called, remedy)).collect(),
            None => called,
        };
        let ends: Result<Vec<CallEnd>, Vec<Called<H::Asking>>> = all_ended(called);
        match ends {
            Ok(ends) => worker.write(&ToWorker::Results(ends)).await?,
            Err(called) => {
                worker.write(&ToWorker::Suspend).await?;
                return match worker.read().await? {
                    FromWorker::Suspended(Ok(script)) => Ok(Stop::Waits(script, called)),
                    FromWorker::Suspended(Err(failure)) => failed(failure),
                    _ => Err(unexpected()),
                };
            }
        }
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an unexpected frame")
}

/// Makes calls, as many at a time as the script may; their order is kept.
async fn make<H: ToolHost>(
    calls: Vec<Awaited<H::Asking>>,
    limits: &ScriptLimits,
    host: &H,
) -> Result<Vec<Called<H::Asking>>, Failure> {
    let several = calls.len() > 1;
    let calls = calls.into_iter().map(async |call| match call {
        Awaited::New(call) => host.call(call).await,
        Awaited::Earlier(Called::Asks(asking)) => host.go_on(asking).await,
        Awaited::Earlier(ended @ Called::Ended(_)) => ended,
    });
    let mut results = pin!(stream::iter(calls).buffered(limits.parallel.max(1)));
    let (mut made, mut bytes) = (Vec::new(), 0);
    while let Some(called) = results.next().await {
        if let (Called::Ended(end), true) = (&called, several) {
            bytes = size(end).saturating_add(bytes);
        }
        if bytes > MAX_RESULTS {
            let error = format!(
                "the results of one `parallel` have more than {MAX_RESULTS} bytes; make fewer calls at a time"
            );
            return Err(Failure::new("ResultLimitError", error).with_limit(MAX_RESULTS));
        }
        made.push(called);
    }
    Ok(made)
}

/// Ends a call that asks the user: its interpreter cannot be left and come back to.
fn without_question<A>(called: Called<A>, remedy: &str) -> Called<A> {
    match called {
        Called::Asks(_) => {
            let message = format!("the tool asks the user, and {remedy}");
            Called::Ended(CallEnd::Raised { kind: Raised::Asks, message })
        }
        ended @ Called::Ended(_) => ended,
    }
}

/// Returns the ends of all calls, or the calls as they are if one asks.
fn all_ended<A>(called: Vec<Called<A>>) -> Result<Vec<CallEnd>, Vec<Called<A>>> {
    if called.iter().any(|called| matches!(called, Called::Asks(_))) {
        return Err(called);
    }
    let end = |called| match called {
        Called::Ended(end) => Some(end),
        Called::Asks(_) => None,
    };
    Ok(called.into_iter().filter_map(end).collect())
}

/// Returns the bytes of a result as JSON.
fn size(end: &CallEnd) -> usize {
    serde_json::to_vec(end).map_or(usize::MAX, |json| json.len())
}
