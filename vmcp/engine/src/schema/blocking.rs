//! Costly checks on blocking threads, a few at a time.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

/// Checks that may run at a time: half of the cores, so that the other half serves connections. Further ones
/// wait.
static SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))));

/// Runs `work` on a blocking thread. `None` if it panicked.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // Held by the work itself: a caller that goes away does not free the thread.
    let slot = SLOTS.acquire().await.ok();
    // Boxed, so that the task is compiled once for a type of value.
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(move || {
        let _slot = slot;
        work()
    });
    tokio::task::spawn_blocking(work).await.ok()
}
