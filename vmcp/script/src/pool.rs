//! [`WorkerPool`]: workers of the server. A warm worker waits for a script, runs it, and is replaced.

mod death;
mod interpreter;
mod running;
mod script_end;
mod worker;

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::future::Future;
use std::hash::Hash;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::limits::ResourceBounds;
use crate::protocol::{Failure, HostCall, ToolUse};
pub use interpreter::Interpreter;
pub use script_end::{Called, Ran, Script, ScriptEnd, WaitingScript};
use worker::Worker;

/// Time that a script runs before the next worker starts beside it. A start takes a core for some
/// milliseconds, which a short script would feel; such a script has its worker replaced at its end.
const REPLACED_AFTER: Duration = Duration::from_millis(10);

/// The program of a worker: an executable file, and the arguments before the bounds.
#[derive(Debug, Clone)]
pub struct WorkerProgram {
    /// The executable.
    pub program: PathBuf,
    /// Arguments that make it a worker.
    pub arguments: Vec<OsString>,
}

/// Bounds of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Workers that wait for a script.
    pub warm: usize,
    /// Scripts that run at the same time; one more is refused.
    pub running: usize,
    /// Of them, those of one principal.
    pub running_per_principal: usize,
    /// Bounds of each process.
    pub bounds: ResourceBounds,
}

/// Makes the calls of a script, under the identity of the caller of the script.
pub trait ToolHost: Sync {
    /// A call whose tool asks the user.
    type Asking: Send;

    /// Makes a call.
    fn call(&self, call: HostCall) -> impl Future<Output = Called<Self::Asking>> + Send;

    /// Goes on with a call whose tool has asked.
    fn go_on(&self, asking: Self::Asking) -> impl Future<Output = Called<Self::Asking>> + Send;

    /// Returns the mistake of each tool that the text of a script names, in their order; `None`: the caller
    /// may call it.
    fn check(&self, uses: Vec<ToolUse>) -> impl Future<Output = Vec<Option<String>>> + Send {
        std::future::ready(vec![None; uses.len()])
    }

    /// Returns the time for which calls have waited for a person so far; it counts for no time limit.
    fn user_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// Workers of a server. `P` is the key by which scripts of one principal are counted.
#[derive(Debug)]
pub struct WorkerPool<P> {
    program: WorkerProgram,
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    warm: Vec<Worker>,
    /// Workers that are being started to be warm.
    starting: usize,
    /// Scripts that take the workers being started, the longest wait first: at most `starting`.
    waiting: VecDeque<oneshot::Sender<Worker>>,
    running: usize,
    by_principal: HashMap<P, usize>,
}

impl<P: Clone + Eq + Hash + Send + 'static> WorkerPool<P> {
    /// Makes a pool without a worker.
    pub fn new(program: WorkerProgram) -> WorkerPool<P> {
        let state = State {
            warm: Vec::new(),
            starting: 0,
            waiting: VecDeque::new(),
            running: 0,
            by_principal: HashMap::new(),
        };
        WorkerPool { program, state: Mutex::new(state) }
    }

    /// Runs a script for a principal until it ends, or a tool asks the user. A limit, a death of the worker
    /// and a refusal are failures in the returned value. Dropped, it ends the worker.
    pub async fn run<H: ToolHost>(
        self: &Arc<Self>,
        principal: &P,
        settings: PoolSettings,
        script: Script<H::Asking>,
        host: &H,
    ) -> ScriptEnd<H::Asking> {
        let _place = match Place::take(self, principal, settings) {
            Ok(place) => place,
            Err(failure) => return ScriptEnd::failed(failure),
        };
        let worker = match self.worker(settings).await {
            Ok(worker) => worker,
            Err(error) => return ScriptEnd::failed(died(&format!("could not be started: {error}"))),
        };
        self.replace(settings, REPLACED_AFTER);
        let end = running::run(Box::new(worker), script, settings.bounds, host).await;
        self.replace(settings, Duration::ZERO);
        end
    }

    /// Runs a script as [`WorkerPool::run`] does, in an interpreter that `launch` starts once the script has
    /// its place. The script's time begins with the interpreter.
    pub async fn run_in<H: ToolHost>(
        self: &Arc<Self>,
        principal: &P,
        settings: PoolSettings,
        launch: impl Future<Output = Result<Box<dyn Interpreter>, Failure>> + Send,
        script: Script<H::Asking>,
        host: &H,
    ) -> ScriptEnd<H::Asking> {
        let _place = match Place::take(self, principal, settings) {
            Ok(place) => place,
            Err(failure) => return ScriptEnd::failed(failure),
        };
        match launch.await {
            Ok(interpreter) => running::run(interpreter, script, settings.bounds, host).await,
            Err(failure) => ScriptEnd::failed(failure),
        }
    }

    /// Takes a warm worker, or a worker that is being started for no other script; starts one otherwise.
    async fn worker(&self, settings: PoolSettings) -> io::Result<Worker> {
        if let Some(worker) = self.warm_worker(settings) {
            return Ok(worker);
        }
        if let Some(started) = self.next_started()
            && let Ok(worker) = started.await
            && worker.bounds == settings.bounds
        {
            return Ok(worker);
        }
        Worker::start(&self.program, settings.bounds).await
    }

    /// Returns where the next worker arrives that is being started for no other script.
    fn next_started(&self) -> Option<oneshot::Receiver<Worker>> {
        let mut state = self.state.lock();
        state.waiting.retain(|script| !script.is_closed());
        (state.starting > state.waiting.len()).then(|| {
            let (script, started) = oneshot::channel();
            state.waiting.push_back(script);
            started
        })
    }

    /// Starts workers in the background after this time, until enough are warm.
    fn replace(self: &Arc<Self>, settings: PoolSettings, after: Duration) {
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            sleep(after).await;
            while pool.is_start_due(settings) {
                let worker = Worker::start(&pool.program, settings.bounds).await;
                if let Err(error) = &worker {
                    tracing::warn!(%error, "a worker for scripts could not be started");
                }
                if !pool.add_started(worker.ok(), settings) {
                    return;
                }
            }
        });
    }

    /// Returns true, and counts a start, if fewer workers than `settings` ask for are warm or being started.
    fn is_start_due(&self, settings: PoolSettings) -> bool {
        let mut state = self.state.lock();
        let is_due = state.warm.len() + state.starting < settings.warm;
        state.starting += usize::from(is_due);
        is_due
    }

    /// Gives a worker that has been started to the script that waits longest, or keeps it warm. `None`: it
    /// could not be started, and that script starts its own. Returns true if there is a worker.
    fn add_started(&self, worker: Option<Worker>, settings: PoolSettings) -> bool {
        let mut state = self.state.lock();
        state.starting = state.starting.saturating_sub(1);
        let Some(mut worker) = worker else {
            state.waiting.pop_front();
            return false;
        };
        while let Some(script) = state.waiting.pop_front() {
            match script.send(worker) {
                Ok(()) => return true,
                // This script was cancelled.
                Err(unused) => worker = unused,
            }
        }
        if state.warm.len() < settings.warm {
            state.warm.push(worker);
        }
        true
    }

    /// Takes a warm worker; those under other bounds, and dead ones, end.
    fn warm_worker(&self, settings: PoolSettings) -> Option<Worker> {
        let mut state = self.state.lock();
        state.warm.retain_mut(|worker| worker.bounds == settings.bounds && worker.is_alive());
        state.warm.pop()
    }
}

/// The place of a running script, given back when it ends.
struct Place<'a, P: Eq + Hash> {
    pool: &'a WorkerPool<P>,
    principal: P,
}

impl<'a, P: Clone + Eq + Hash> Place<'a, P> {
    fn take(pool: &'a WorkerPool<P>, principal: &P, settings: PoolSettings) -> Result<Place<'a, P>, Failure> {
        let mut state = pool.state.lock();
        let own = state.by_principal.get(principal).copied().unwrap_or_default();
        let busy = |limit: usize, of: &str| {
            let error = format!("{limit} scripts {of} run already, which is the limit; try again later");
            Failure::new("BusyError", error).with_limit(limit)
        };
        if own >= settings.running_per_principal {
            return Err(busy(settings.running_per_principal, "of yours"));
        }
        if state.running >= settings.running {
            return Err(busy(settings.running, "of all clients"));
        }
        state.running += 1;
        *state.by_principal.entry(principal.clone()).or_default() += 1;
        Ok(Place { pool, principal: principal.clone() })
    }
}

impl<P: Eq + Hash> Drop for Place<'_, P> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.running = state.running.saturating_sub(1);
        if let Some(own) = state.by_principal.get_mut(&self.principal) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                state.by_principal.remove(&self.principal);
            }
        }
    }
}

/// The failure of a script whose worker is gone.
fn died(how: &str) -> Failure {
    Failure::new("WorkerError", format!("the worker process {how}; the next script gets a new one"))
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn each_worker_that_is_being_started_has_at_most_one_script() {
        let program = WorkerProgram { program: PathBuf::from("no program"), arguments: Vec::new() };
        let pool = WorkerPool::<u8>::new(program);
        let bounds = ResourceBounds { memory: 1 << 20, cpu_seconds: 1 };
        let settings = PoolSettings { warm: 1, running: 9, running_per_principal: 9, bounds };
        assert!(pool.next_started().is_none(), "none is being started");
        assert!(pool.is_start_due(settings));
        assert!(!pool.is_start_due(settings), "one is being started already");
        drop(pool.next_started().unwrap());
        let mut waiting = pool.next_started().expect("the script before was cancelled");
        assert!(pool.next_started().is_none(), "the worker has its script");
        assert_eq!(waiting.try_recv().unwrap_err(), TryRecvError::Empty);
        assert!(!pool.add_started(None, settings));
        assert_eq!(waiting.try_recv().unwrap_err(), TryRecvError::Closed, "the script starts its own");
        assert!(pool.next_started().is_none());
        assert!(pool.is_start_due(settings), "the failed start is counted no more");
    }
}
