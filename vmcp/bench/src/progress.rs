//! Progress messages on standard error, apart from the table on standard output.
#![expect(clippy::print_stderr, reason = "progress is for the person who waits")]

/// Prints the step that begins.
pub(crate) fn progress(step: &str) {
    eprintln!("bench: {step}");
}
