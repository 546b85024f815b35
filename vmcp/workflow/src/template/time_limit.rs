//! The time of one rendering. A rendering holds its thread until its end, so each turn of a loop and each
//! called template looks at the clock: forty templates, each with two calls of the next one, make 2^40 calls
//! and an empty text.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Longest time of one rendering.
const MAX_TIME: Duration = Duration::from_secs(2);

thread_local! {
    /// End of the time of the rendering on this thread.
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs a rendering under the limit.
pub(super) fn limited<T>(render: impl FnOnce() -> T) -> T {
    let outer = END.replace(Some(Instant::now() + MAX_TIME));
    let rendered = render();
    END.set(outer);
    rendered
}

/// Fails if the time of the rendering on this thread is over.
pub(super) fn check() -> Result<(), String> {
    if END.get().is_some_and(|end| Instant::now() >= end) {
        return Err(format!("the template took longer than {} seconds", MAX_TIME.as_secs()));
    }
    Ok(())
}
