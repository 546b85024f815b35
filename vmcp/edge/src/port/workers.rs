//! [`Workers`]: threads that serve client connections, each with an event loop of its own (thread per core).
//!
//! A connection stays on the thread that it was handed to, and so does everything that its requests do: the
//! upstream connections of a worker are polled by the worker alone. A call then wakes no other thread, which
//! at small answers costs more than the call. Work that computes for long belongs on a blocking thread: it
//! would stop all connections of its worker.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Threads for blocking work that one worker may start; further work waits for one of them.
const MAX_BLOCKING_THREADS: usize = 64;

/// The threads; they end when this is dropped, with whatever still runs on them.
pub(super) struct Workers {
    workers: Vec<Worker>,
    _stop: DropGuard,
}

/// One thread and the number of connections on it.
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A place on a worker, held by one connection.
pub(super) struct ConnectionSlot {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts one thread for each core that this process may use.
    pub(super) fn start() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let stop = CancellationToken::new();
        let workers =
            (0..cores).map(|number| Worker::start(number, stop.clone())).collect::<io::Result<_>>()?;
        Ok(Self { workers, _stop: stop.drop_guard() })
    }

    /// Takes a place on the worker that has the fewest connections. A listening socket for each thread
    /// (`SO_REUSEPORT`) would leave that to a hash, which is uneven as long as connections are few.
    pub(super) fn place(&self) -> ConnectionSlot {
        let open = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        let (runtime, connections) = match self.workers.iter().min_by_key(open) {
            Some(worker) => (worker.runtime.clone(), Arc::clone(&worker.connections)),
            None => (Handle::current(), Arc::default()),
        };
        connections.fetch_add(1, Ordering::Relaxed);
        ConnectionSlot { runtime, connections }
    }
}

impl Worker {
    /// Starts a thread that runs an event loop until `stop`.
    fn start(number: usize, stop: CancellationToken) -> io::Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new().name(format!("client-{number}")).spawn(move || {
            runtime.block_on(stop.cancelled());
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, connections: Arc::default() })
    }
}

impl ConnectionSlot {
    /// The event loop to which the connection belongs.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_goes_to_the_worker_that_has_the_fewest() {
        let stop = CancellationToken::new();
        let workers = (0..2).map(|number| Worker::start(number, stop.clone()).unwrap()).collect();
        let workers = Workers { workers, _stop: stop.drop_guard() };
        let thread = async |place: &ConnectionSlot| {
            place.runtime().spawn(async { thread::current().id() }).await.unwrap()
        };
        let (first, second) = (workers.place(), workers.place());
        let (on_first, on_second) = (thread(&first).await, thread(&second).await);
        assert_ne!(on_first, on_second);
        drop(first);
        assert_eq!(thread(&workers.place()).await, on_first);
        assert_eq!(
            workers.workers.iter().map(|one| one.connections.load(Ordering::Relaxed)).sum::<usize>(),
            1
        );
    }
}
