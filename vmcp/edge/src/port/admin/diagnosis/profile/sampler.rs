//! Samples the stacks of all threads by a timer of CPU time (`SIGPROF`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use pprof::{Frames, ProfilerGuardBuilder, Report};
use tokio::sync::Mutex;

/// Samples in a second of CPU time: a prime number, so that no periodic work falls into step with it.
const FREQUENCY: i32 = 97;
/// Libraries in which no stack is taken: a signal inside the unwinder or the allocator of libc would meet its
/// locks.
const UNSAFE_LIBRARIES: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// The profiler of the process is one.
static TURN: Mutex<()> = Mutex::const_new(());

/// Error of taking a profile.
#[derive(Debug, thiserror::Error)]
pub(super) enum SampleError {
    /// Another profile is being taken.
    #[error("another profile is being taken; ask again after its end, at most 60 seconds")]
    Busy,
    /// The profiler failed.
    #[error("the profiler failed: {0}")]
    Profiler(#[from] pprof::Error),
    /// The thread that writes the report ended.
    #[error("the report was not finished")]
    Unfinished,
}

/// Samples for `length` and returns folded stacks. Dropped before its end, it stops sampling.
pub(super) async fn sample(length: Duration) -> Result<String, SampleError> {
    let turn = TURN.try_lock().map_err(|_| SampleError::Busy)?;
    let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&UNSAFE_LIBRARIES).build()?;
    tokio::time::sleep(length).await;
    // Finding the names of functions takes a second of a large program.
    let written = tokio::task::spawn_blocking(move || {
        let report = guard.report().build().map(|report| folded(&report));
        // The turn ends with the profiler, also if the asker has gone.
        drop(guard);
        drop(turn);
        report
    });
    Ok(written.await.map_err(|_| SampleError::Unfinished)??)
}

/// Writes each stack as `thread;outermost;…;innermost count`, which flame graphs are drawn from.
fn folded(report: &Report) -> String {
    let mut counts = BTreeMap::<String, isize>::new();
    for (frames, count) in &report.data {
        *counts.entry(stack(frames)).or_default() += count;
    }
    let mut text = String::new();
    for (stack, count) in counts {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{stack} {count}");
    }
    text
}

fn stack(frames: &Frames) -> String {
    let mut stack = frames.thread_name.replace(';', ",");
    // A frame has one symbol for each function that was inlined into it, the innermost first.
    for symbol in frames.frames.iter().rev().flat_map(|inlined| inlined.iter().rev()) {
        // Types such as `[u8; 4]` have the separator in their names.
        stack.push(';');
        stack.push_str(&symbol.name().replace(';', ","));
    }
    stack
}
