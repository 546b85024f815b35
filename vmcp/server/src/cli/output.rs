//! The one place that writes: results to standard output, remarks to standard error.

use std::io::{self, IsTerminal as _, Write as _};

use super::failure::Failure;

/// Writes a result, with a line end if it lacks one.
pub(super) fn result(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let end: &[u8] = if text.is_empty() || text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    written.map_err(|error| Failure::of_output(&error))
}

/// Writes a remark for people. Nobody is told when that fails: there is nowhere left to tell it.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether remarks are read by a person.
pub(super) fn people_read_notes() -> bool {
    io::stderr().is_terminal()
}
