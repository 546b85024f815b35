//! [`Worker`]: one worker process and its pipes.

use std::io;
use std::process::Stdio;
use std::sync::Once;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{Interpreter, WorkerProgram, death};
use crate::limits::ResourceBounds;
use crate::protocol::{Confinement, Failure, FromWorker, MAX_FRAME, ToWorker, streams};

/// Time that a worker has to be ready.
const START: Duration = Duration::from_secs(20);

/// A worker process. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) bounds: ResourceBounds,
    child: Child,
    stderr: Option<ChildStderr>,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

/// Tells the operator once that the kernel takes less than all confinement.
fn warn_unconfined(confined: Confinement) {
    static TOLD: Once = Once::new();
    if !(confined.seccomp && confined.landlock) {
        TOLD.call_once(|| {
            tracing::warn!(
                ?confined,
                "this system confines scripts less than Linux with seccomp and Landlock"
            );
        });
    }
}

impl Worker {
    /// Starts a worker and waits until it is confined.
    pub(super) async fn start(program: &WorkerProgram, bounds: ResourceBounds) -> io::Result<Worker> {
        let mut command = Command::new(&program.program);
        command
            .args(&program.arguments)
            .arg(format!("--memory={}", bounds.memory))
            .arg(format!("--cpu-seconds={}", bounds.cpu_seconds))
            .env_clear()
            // The allocator takes memory in small regions: a large reserve would exceed the address space.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C at a terminal is for the server, which lets requests in flight end.
        #[cfg(unix)]
        command.process_group(0).arg0("vmcp");
        let mut child = command.spawn()?;
        let no_pipe = || io::Error::other("no pipe");
        let stdin = child.stdin.take().ok_or_else(no_pipe)?;
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let stderr = child.stderr.take();
        let mut worker = Worker { bounds, child, stderr, stdin, stdout };
        match timeout(START, worker.read()).await {
            Ok(Ok(FromWorker::Ready(confined))) => {
                tracing::debug!(?confined, "a worker for scripts is ready");
                warn_unconfined(confined);
                Ok(worker)
            }
            Ok(Ok(_)) => Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected frame")),
            Ok(Err(error)) => {
                Err(io::Error::other(format!("{error}: {}", death::text(worker.stderr.take()).await)))
            }
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Interpreter for Worker {
    fn read(&mut self) -> BoxFuture<'_, io::Result<FromWorker>> {
        Box::pin(streams::read(&mut self.stdout, MAX_FRAME))
    }

    fn write<'a>(&'a mut self, frame: &'a ToWorker) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(streams::write(&mut self.stdin, frame))
    }

    fn never_waits(&self) -> Option<&'static str> {
        None
    }

    fn explain(mut self: Box<Self>) -> BoxFuture<'static, Failure> {
        Box::pin(async move {
            let (stderr, memory) = (self.stderr.take(), self.bounds.memory);
            death::explain(&mut self.child, stderr, memory).await
        })
    }
}
